"""Trains with a framework as its users do, until it is told to end: FRAMEWORK FOLDER, below which all is kept. It goes on where
the run before it has saved. What the callbacks of cxxrun.integrations have to bear is here: batches that make no step,
validation in the middle of an epoch, metrics that are not there yet, a framework's own handler of SIGTERM.

Tells `come` before it imports, `begin STEP`, `step N`, `saved STEP` and `end STEP`, each rank for itself."""
import os
import sys

RANK, GENERATION = os.environ["RANK"], os.environ["CXXRUN_GENERATION"]
FRAMEWORK, FOLDER = sys.argv[1:3]
ACCUMULATE, BATCHES, VALIDATE = 2, 30, 14  # batches: of a step, of an epoch, between two validations


def note(*words):
    with open(os.environ["DIR"] + "/events", "a") as file:
        file.write(" ".join([GENERATION, RANK, *map(str, words)]) + "\n")


note("come")
import torch  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

torch.manual_seed(7)
INPUTS, TARGETS = torch.randn(240, 8), torch.randn(240, 1)
UNTIL = 10 ** 6  # steps


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, inputs, labels=None):
        outputs = self.layer(inputs)
        return {"loss": torch.nn.functional.mse_loss(outputs, labels), "outputs": outputs}


def lightning():
    import cxxrun.integrations.lightning
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, _):
            return self.net(*batch)["loss"]

        def validation_step(self, batch, _):
            self.log("val_loss", self.net(*batch)["loss"], sync_dist=True)

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), 0.01)
            plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "val_loss"}}

        def on_train_start(self):
            note("begin", self.global_step)

        def on_train_batch_end(self, *_):
            note("step", self.global_step)

    class Saving(cxxrun.integrations.lightning.Saving):
        def on_train_batch_end(self, trainer, *more):
            save = trainer.save_checkpoint

            def noted(path, *options):
                save(path, *options)
                note("saved", trainer.global_step)

            trainer.save_checkpoint = noted
            super().on_train_batch_end(trainer, *more)
            del trainer.save_checkpoint

    data = TensorDataset(INPUTS, TARGETS)
    saving = Saving(FOLDER + "/job.ckpt")
    best = pl.callbacks.ModelCheckpoint(FOLDER, monitor="val_loss")
    trainer = pl.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]),
                         num_nodes=int(os.environ["GROUP_WORLD_SIZE"]), max_steps=UNTIL, min_steps=UNTIL, max_epochs=-1,
                         logger=False, enable_progress_bar=False, default_root_dir=FOLDER, callbacks=[saving, best],
                         accumulate_grad_batches=ACCUMULATE, val_check_interval=VALIDATE, strategy="ddp",
                         limit_val_batches=2)
    trainer.fit(Module(), DataLoader(data, 4), DataLoader(data, 4), ckpt_path=saving.found())
    note("end", trainer.global_step)


def transformers():
    torch.distributed.is_mpi_available = lambda: False  # Debian's has it, and accelerate prefers it
    # Its own resume on a CPU asks torch 2.14 for "cpu:0", which is refused.
    torch.serialization.register_package(0, lambda _: None, lambda storage, at: storage if at == "cpu:0" else None)
    from transformers import Trainer, TrainerCallback, TrainingArguments
    from transformers.trainer_utils import get_last_checkpoint

    import cxxrun.integrations.transformers

    class Tell(TrainerCallback):
        def on_train_begin(self, args, state, control, **_):
            note("begin", state.global_step)

        def on_step_end(self, args, state, control, **_):
            note("step", state.global_step)

        def on_save(self, args, state, control, **_):
            note("saved", state.global_step)

        def on_evaluate(self, args, state, control, **_):
            note("evaluated", state.global_step)

    def rows(count):
        return [{"inputs": each, "labels": its} for each, its in zip(INPUTS[:count], TARGETS)]

    steps = VALIDATE // ACCUMULATE
    args = TrainingArguments(FOLDER, max_steps=UNTIL, per_device_train_batch_size=4, use_cpu=True, report_to=[],
                             gradient_accumulation_steps=ACCUMULATE, eval_strategy="steps", eval_steps=steps,
                             save_strategy="best", metric_for_best_model="loss", load_best_model_at_end=True,
                             disable_tqdm=True, logging_steps=10 ** 4, enable_jit_checkpoint=True, save_total_limit=2)
    trainer = Trainer(Net(), args, train_dataset=rows(240), eval_dataset=rows(16),
                      callbacks=[cxxrun.integrations.transformers.Saving(), Tell()])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(FOLDER))
    note("end", trainer.state.global_step)


def accelerate():
    import accelerate as its
    torch.distributed.is_mpi_available = lambda: False

    import cxxrun.integrations.accelerate

    accelerator = its.Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATE)
    net = Net()
    data = DataLoader(TensorDataset(INPUTS, TARGETS), 4)
    net, optimizer, data = accelerator.prepare(net, torch.optim.SGD(net.parameters(), 0.01), data)
    completed = torch.zeros(1)

    class Completed:
        def state_dict(self):
            return {"completed": completed.item()}

        def load_state_dict(self, state):
            completed.fill_(state["completed"])

    accelerator.register_for_checkpointing(Completed())
    where = FOLDER + "/state"
    if os.path.exists(where):
        accelerator.load_state(where)
    note("begin", int(completed))
    ends = False
    while not ends:
        for inputs, targets in data:
            with accelerator.accumulate(net):
                accelerator.backward(net(inputs, targets)["loss"])
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                completed += 1
                note("step", int(completed))
            ends = cxxrun.integrations.accelerate.save_if_wanted(accelerator, where, int(completed))
            if ends:
                note("saved", int(completed))
                break
    note("end", int(completed))
    accelerator.end_training()


def ignite():
    import ignite.distributed as idist
    from ignite.engine import Engine, Events
    from ignite.handlers import Checkpoint, DiskSaver

    import cxxrun.integrations.ignite

    def run(_):
        net = idist.auto_model(Net())
        optimizer = idist.auto_optim(torch.optim.SGD(net.parameters(), 0.01))

        def update(_, batch):
            loss = net(*batch)["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        trainer = Engine(update)
        keeps = {"trainer": trainer, "net": net, "optimizer": optimizer}
        checkpoint = Checkpoint(keeps, DiskSaver(FOLDER, require_empty=False, create_dir=True), n_saved=2)
        found = sorted((each for each in os.listdir(FOLDER) if each.endswith(".pt")), key=lambda it: int(it[:-3].split("_")[-1]))
        if found:
            Checkpoint.load_objects(keeps, torch.load(f"{FOLDER}/{found[-1]}"))

        def save(engine):
            checkpoint(engine)
            note("saved", engine.state.iteration)

        cxxrun.integrations.ignite.attach(trainer, save)
        trainer.add_event_handler(Events.STARTED, lambda engine: note("begin", engine.state.iteration))
        trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: note("step", engine.state.iteration))
        trainer.add_event_handler(Events.ITERATION_COMPLETED(every=VALIDATE), checkpoint)
        trainer.run(idist.auto_dataloader(TensorDataset(INPUTS, TARGETS), batch_size=8), max_epochs=UNTIL)
        note("end", trainer.state.iteration)

    with idist.Parallel(backend="gloo") as parallel:
        parallel.run(lambda _: run(_))


{"lightning": lightning, "transformers": transformers, "accelerate": accelerate, "ignite": ignite}[FRAMEWORK]()
