"""A relay: passes the bytes of whoever calls PORT on to PORT_BEHIND of the same host, unchanged, and ends each connection
in order after SECONDS. Prints "listens", then a line for each call. Usage: relay.py PORT PORT_BEHIND SECONDS"""
import asyncio
import sys

PORT, BEHIND, SECONDS = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


async def pass_on(reader, writer):
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()


async def called(reader, writer):
    print("called by", *writer.get_extra_info("peername")[:2], flush=True)
    behind = None
    try:
        behind = await asyncio.open_connection("127.0.0.1", BEHIND)
        both = asyncio.gather(pass_on(reader, behind[1]), pass_on(behind[0], writer))
        await asyncio.wait_for(both, SECONDS)
    except (OSError, asyncio.TimeoutError):
        pass
    for one in filter(None, (writer, behind and behind[1])):
        one.close()  # sends FIN


async def main():
    server = await asyncio.start_server(called, "0.0.0.0", PORT)
    print("listens", flush=True)
    await server.serve_forever()


asyncio.run(main())
