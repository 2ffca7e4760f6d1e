'use strict'
// One value, `v`, has what page_state.hpp says. Texts of the job are shown by textContent alone.
const $ = id => document.getElementById(id)
const el = (tag, text, cls) => {
  const e = document.createElement(tag)
  if (text !== undefined) e.textContent = text
  if (cls) e.className = cls
  return e
}
const set = (e, text) => { if (e.textContent !== String(text)) e.textContent = text }
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()
const clock = s => Math.floor(s / 3600) + ':' + [Math.floor(s / 60) % 60, s % 60].map(n => String(n).padStart(2, '0')).join(':')
const number = n => String(n).replace(/\B(?=(\d{3})+$)/g, ',')  // Intl.NumberFormat holds the first paint up for 40 ms
const seconds = ms => ms === null ? '' : (ms / 1000).toFixed(ms < 1000 ? 3 : 2)
const kSilent = 15, kQuiet = 5, kRows = 256, kPoints = 2160

let v = null, heard = 0, chosen = -1, over = '', cells = [], places = [], past = [], speeds = [], apart = 1

// ---- what the cells are -------------------------------------------------------------------------------------------

// A cell is a rank, or a node where there are too many ranks.
function count() {
  cells = []
  v.hosts.forEach((host, node) => {
    for (let i = 0; i < (v.by === 'rank' ? v.counts[node] : 1); ++i) cells.push({node, rank: v.firsts[node] + i})
  })
}
const ranksOf = node => v.counts[node] === 1 ? String(v.firsts[node]) : v.firsts[node] + '-' + (v.firsts[node] + v.counts[node] - 1)
const cellOf = rank => cells.findIndex(c => rank >= c.rank && rank < c.rank + (v.by === 'rank' ? 1 : v.counts[c.node]))
const isSlow = cell => v.slow.some(([rank, ranks]) => v.by === 'rank' ? cell.rank >= rank && cell.rank < rank + ranks
  : rank < cell.rank + v.counts[cell.node] && rank + ranks > cell.rank)
function mark(i) {
  const s = v.state[i]
  return v.heard_s[cells[i].node] > kSilent ? '?' : /[EZX]/.test(s) ? '✕' : /[Tt]/.test(s) ? '■' : isSlow(cells[i]) ? '▲'
    : /D/.test(s) ? '!' : ''
}
// Nodes tell of their workers at different instants: what happens in two seconds is no difference.
function usual(key) {
  const first = past[0], last = past[past.length - 1]
  return first && last.at > first.at ? Math.max(0, (last[key] - first[key]) / (last.at - first.at) * 2000) : 0
}
// Nine cells of ten are plain: else noise would look like a pattern.
function standing(key, least) {
  const low = Math.max(least, [...v[key]].sort((a, b) => a - b)[Math.floor(v[key].length * .9)] || 0)
  return [low, low * 3 + 1]
}
const whats = {
  unbegun: ['collectives begun, behind the first', () => standing('unbegun', usual('begun') + 1), number],
  behind: ['steps, behind the first', () => standing('behind', usual('steps') + 1), number],
  extra_ms: ['time of a step, above the usual', () => standing('extra_ms', (v.step_ms || 0) / 20), x => seconds(x) + ' s'],
  memory_mib: ['memory', () => [0, Math.max(...v.memory_mib, 1)], x => number(Math.round(x)) + ' MiB'],
  cpu: ['processors', () => [0, Math.max(...v.cpu, 100)], x => Math.round(x) + ' %'],
  gpu: ['GPU', () => [0, 100], x => Math.round(x) + ' %'],
}
for (const key in whats) {
  const option = el('option', whats[key][0], key === 'gpu' && key)
  option.value = key
  $('what').append(option)
}

// ---- drawing ------------------------------------------------------------------------------------------------------

function show() {
  if (!v.run) return
  set($('name'), v.run)
  set($('program'), v.program)
  document.title = (v.well ? '' : '! ') + v.run + ' ' + v.says.split(':')[0]
  set($('says'), v.run + ' ' + (over ? 'is over. It was last seen so: ' : '') + v.says)
  $('says').className = over ? '' : !v.well ? 'bad' : v.slow.length ? 'warn' : 'good'
  set($('heard'), v.says.replace(/[0-9][0-9.:]*/g, ''))  // read aloud when it changes, and not for each step
  const figures = [['step', v.steps === null ? '-' : number(v.steps)], ['s a step', v.step_ms === null ? '-' : seconds(v.step_ms)],
    ['goodput', v.goodput ?? '-'], ['restarts', v.restarts + (v.max_restarts === null ? '' : ' of ' + v.max_restarts)], ['generation', v.generation],
    ['nodes', v.nodes], ['ranks', number(v.ranks)], ['elapsed', clock(v.job_s)], ['coordinated on', v.coordinator]]
  if (!$('figures').childElementCount) figures.forEach(([name]) => { const d = el('div'); d.append(el('dt', name), el('dd')); $('figures').append(d) })
  figures.forEach(([, value], i) => set($('figures').children[i].lastChild, value))
  document.querySelectorAll('.gpu').forEach(e => e.hidden = !v.gpu.length)
  slow(); spent(); grid(); nodes(); far(); one(); chart()
}

// Rows of texts; a cell may also be a number, {n}, a {state}, or the button of a {rank}. Only what differs is touched, so that a focus stays.
function fill(body, rows) {
  while (body.childElementCount > rows.length) body.lastChild.remove()
  rows.forEach((row, r) => {
    const tr = body.children[r] || body.appendChild(el('tr'))
    row.forEach((value, c) => {
      const td = tr.children[c] || tr.appendChild(el('td'))
      if (value.rank !== undefined) {
        const b = td.firstElementChild || td.appendChild(el('button'))
        b.onclick = () => choose(value.rank)
        set(b, value.text)
      } else set(td, value.n ?? value.state ?? value)
      const cls = value.n !== undefined ? 'n' : /SLOW|[TEZX]|silent/.test(value.state) ? 'bad' : ''
      if (td.className !== cls) td.className = cls
    })
    while (tr.childElementCount > row.length) tr.lastChild.remove()
  })
}
function slow() {
  $('slow').hidden = !v.slow.length
  const sources = {libcxxrun: 'time in calls of libcxxrun', ddp: 'log of DistributedDataParallel', begun: 'collectives begun'}
  fill($('slow-rows'), v.slow.map(([rank, ranks, host, late, percent, spent, source]) =>
    [{rank, text: ranks > 1 ? rank + '-' + (rank + ranks - 1) : rank}, host, {n: seconds(late) + ' s (' + percent + ' %)'},
      (spent ? spent + '; ' : '') + 'by its ' + (sources[source] || source)]))
}
function spent() {
  const percent = s => (100 * s / Math.max(v.job_s, 1)).toFixed(1) + ' %'
  const rows = v.spent.filter(([, s]) => s).map(([name, s]) => [name, {n: clock(s)}, {n: percent(s)}])
  if (v.checkpoint_s !== null) rows.push(['last checkpoint', {n: clock(v.checkpoint_s)}, 'ago'])
  $('spent').hidden = !rows.length
  fill($('spent-rows'), rows)
}
const figuresOf = (behind, unbegun, extra, waits, memory, cpu, state, gpu) => [{n: v.steps === null ? '-' : number(v.steps - behind)},
  {n: extra === null || v.step_ms === null ? '-' : seconds(v.step_ms + extra)}, {n: number(v.begun - unbegun)}, {n: waits}, {n: number(memory)}, {n: cpu},
  ...v.gpu.length ? [{n: gpu ?? '-'}] : []]
function nodes() {
  const rows = v.hosts.map(() => ({behind: 0, unbegun: 0, extra: null, waits: 0, memory: 0, cpu: 0, gpu: null, letters: '', slow: false}))
  cells.forEach((cell, i) => {
    const row = rows[cell.node]
    row.behind = Math.max(row.behind, v.behind[i])
    row.unbegun = Math.max(row.unbegun, v.unbegun[i])
    if (v.extra_ms[i] !== null) row.extra = Math.max(row.extra === null ? -Infinity : row.extra, v.extra_ms[i])
    row.waits += v.waits[i]
    row.memory = Math.max(row.memory, v.memory_mib[i])
    row.cpu += v.cpu[i]
    if (v.gpu.length && v.gpu[i] !== null) row.gpu = Math.min(row.gpu ?? 100, v.gpu[i])
    for (const letter of v.state[i]) if (!row.letters.includes(letter)) row.letters += letter
    row.slow = row.slow || isSlow(cell)
  })
  const order = rows.map((row, n) => n), plain = n => !rows[n].slow && v.heard_s[n] <= kSilent && /^[RS]*$/.test(rows[n].letters)
  if (order.length > kRows) order.sort((a, b) => plain(a) - plain(b) || a - b).splice(kRows)
  fill($('node-rows'), order.map(n => [n, rows[n]]).map(([n, row]) => [{rank: v.firsts[n], text: v.hosts[n]}, ranksOf(n),
    {state: v.heard_s[n] > kSilent ? 'silent for ' + v.heard_s[n] + ' s' : row.slow ? 'SLOW' : row.letters},
    ...figuresOf(row.behind, row.unbegun, row.extra, row.waits, row.memory, row.cpu, '', row.gpu)]))
  set($('nodes-title'), 'Nodes' + (v.hosts.length > kRows ? ', ' + kRows + ' of ' + number(v.hosts.length) : '') + (v.others ? ', and ' + v.others + ' without workers now' : ''))
}
function far() {
  $('far').hidden = v.by === 'rank'
  fill($('far-rows'), v.far.map(([rank, host, ...rest]) => [{rank, text: rank}, host, {state: rest[6]}, ...figuresOf(...rest)]))
}

// Each second has a point; when there are too many, every second one goes.
function note() {
  const last = speeds[speeds.length - 1]
  if (last && v.job_s - last.at < apart) return
  speeds.push({at: v.job_s, ms: v.step_ms})
  if (speeds.length <= kPoints) return
  speeds = speeds.filter((_, i) => i % 2 === 0)
  apart *= 2
}
function chart() {
  const known = speeds.filter(p => p.ms !== null), svg = $('chart')
  $('speed').hidden = known.length < 2
  if (known.length < 2) return
  const width = svg.clientWidth, first = speeds[0].at, span = Math.max(speeds[speeds.length - 1].at - first, 1)
  const sorted = known.map(p => p.ms).sort((a, b) => a - b), median = sorted[sorted.length >> 1], top = sorted[sorted.length - 1] * 1.1 || 1
  const x = at => 48 + (at - first) / span * (width - 56), y = ms => 90 - ms / top * 82
  // A gap where the time was not known.
  svg.children[0].setAttribute('d', speeds.map((p, i) => p.ms === null ? ''
    : (i && speeds[i - 1].ms !== null ? 'L' : 'M') + x(p.at).toFixed(1) + ' ' + y(p.ms).toFixed(1)).join(''))
  const labels = [[0, 94, '0 s'], [0, 16, seconds(top) + ' s'], [48, 107, clock(first)], [width - 8, 107, clock(first + span)]]
  labels.forEach(([left, base, text], i) => {
    const label = svg.children[i + 1]
    Object.entries({x: left, y: base, 'text-anchor': i === 3 ? 'end' : 'start'}).forEach(each => label.setAttribute(...each))
    set(label, text)
  })
  svg.setAttribute('aria-label', 'time of a step: ' + seconds(known[known.length - 1].ms) + ' s, median ' + seconds(median) + ' s')
}

let ramp = []
function colour(x) {
  const p = Math.min(Math.max(x, 0), 1) * 3, i = Math.min(Math.floor(p), 2)
  return 'rgb(' + ramp[i].map((c, k) => Math.round(c + (ramp[i + 1][k] - c) * (p - i))).join() + ')'
}
function grid() {
  const canvas = $('grid'), width = canvas.clientWidth, ratio = devicePixelRatio || 1, by = v.by === 'rank'
  set($('grid-title'), by ? 'Ranks, by node' : 'Nodes: the rank of each that is worst')
  const per = by ? Math.max(1, ...v.counts) : 1, columns = Math.min(per, 4), size = cells.length > 300 ? 12 : 18
  const label = by && v.hosts.length <= 64 ? 14 : 0, gap = by ? 7 : 0
  const blockHeight = Math.ceil(per / columns) * size + gap + label
  const across = Math.max(1, Math.floor(width / Math.max(columns * size + gap, label ? 76 : 0)))
  const height = Math.max(size, Math.ceil(v.hosts.length / across) * blockHeight), step = Math.min(width / across, by ? 140 : size)
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio)
    canvas.height = Math.round(height * ratio)
    canvas.style.height = height + 'px'
  }
  const g = canvas.getContext('2d'), [low, high] = whats[$('what').value][1](), text = whats[$('what').value][2]
  set($('scale'), 'plain: ' + text(Math.round(low)) + ' or less, strong: ' + text(Math.round(high)))
  ramp = ['--c0', '--c1', '--c2', '--c3'].map(name => [1, 3, 5].map(i => parseInt(css(name).slice(i, i + 2), 16)))
  const foreground = css('--fg'), background = css('--bg'), dim = css('--dim'), values = v[$('what').value]
  g.setTransform(ratio, 0, 0, ratio, 0, 0)
  g.clearRect(0, 0, width, height)
  g.textBaseline = 'middle'
  places = []
  cells.forEach((cell, i) => {
    const local = by ? cell.rank - v.firsts[cell.node] : 0
    const x = Math.floor((cell.node % across) * step) + (local % columns) * size
    const y = Math.floor(cell.node / across) * blockHeight + label + Math.floor(local / columns) * size
    if (label && !local) {
      g.fillStyle = dim
      g.font = '11px system-ui,sans-serif'
      g.textAlign = 'left'
      const host = v.hosts[cell.node]
      g.fillText(host.length > 11 ? '…' + host.slice(-10) : host, x, y - 8)
    }
    const much = ((values[i] || 0) - low) / (high - low || 1), sign = mark(i)
    g.globalAlpha = sign === '?' ? .4 : 1
    g.fillStyle = colour(much)
    g.fillRect(x, y, size - 1, size - 1)
    g.globalAlpha = 1
    if (sign) {
      g.fillStyle = much > .55 && much < .8 ? '#000' : much >= .8 ? background : foreground
      g.font = 'bold ' + (size - 3) + 'px system-ui,sans-serif'
      g.textAlign = 'center'
      g.fillText(sign, x + size / 2 - .5, y + size / 2)
    }
    if (i === cellOf(chosen)) {
      g.strokeStyle = foreground
      g.lineWidth = 2
      g.strokeRect(x, y, size - 1, size - 1)
    }
    places.push([x, y, size])
  })
  canvas.setAttribute('aria-label', number(v.ranks) + ' ranks on ' + v.hosts.length + ' nodes. ' + v.says)
}

// ---- one rank -----------------------------------------------------------------------------------------------------

function one() {
  const i = cellOf(chosen)
  if (chosen < 0) return
  if (i < 0) return set($('figures-of-one'), 'there is no rank ' + chosen + ' now')
  const host = v.hosts[cells[i].node], all = v.by === 'rank' ? '' : ', of all its ranks'
  set($('figures-of-one'), 'rank ' + chosen + ' on ' + host + all + ': ' + (v.steps === null ? '' : 'step ' + number(v.steps - v.behind[i]) + ', ') +
    number(v.begun - v.unbegun[i]) + ' collectives begun' + (v.waits[i] ? ', waits' : '') + ', ' + number(v.memory_mib[i]) + ' MiB, CPU ' +
    v.cpu[i] + ' %' + (v.gpu.length && v.gpu[i] !== null ? ', GPU ' + v.gpu[i] + ' %' : '') + ', state ' + v.state[i])
}
function choose(rank) {
  if (rank !== chosen) $('text').hidden = true
  chosen = rank
  $('rank').value = rank
  grid()
  one()
}
async function fetchText(path, read) {
  const rank = chosen, into = $('text')
  if (rank < 0) return
  into.hidden = false
  set(into, 'asking …')
  let text
  try {
    const answer = await fetch(path + '?rank=' + rank, {headers, cache: 'no-store'}), json = await answer.json()
    text = json.error || [...json.errors, ...read(json)].join('\n') || 'nothing'
  } catch (error) { text = 'cxxrunctl does not answer' }
  if (rank !== chosen) return
  set(into, text)
  into.scrollTop = path === 'logs' ? into.scrollHeight : 0
}
$('log').onclick = () => fetchText('logs', json => json.files.map(f => '==> ' + f.host + ':' + f.file + ' <==\n' + f.text))
$('stack').onclick = () => fetchText('stacks', json => json.stacks.map(s => s.frames.join('\n') || s.place))
$('rank').onchange = e => { if (v && /^[0-9]+$/.test(e.target.value)) choose(Number(e.target.value)) }
$('what').onchange = () => v && v.run && grid()
$('grid').onclick = e => {
  const box = $('grid').getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top
  const i = places.findIndex(p => x >= p[0] && x < p[0] + p[2] && y >= p[1] && y < p[1] + p[2])
  if (i >= 0) choose(cells[i].rank)
}
$('grid').onkeydown = e => {
  const per = v && v.by === 'rank' ? Math.max(1, ...v.counts) : 8
  const by = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: per, ArrowUp: -per, Home: -Infinity, End: Infinity}[e.key]
  if (e.key === 'Enter') $('log').click()
  if (!by || !cells.length) return
  e.preventDefault()
  choose(cells[Math.min(Math.max(cellOf(chosen) + by, 0), cells.length - 1)].rank)
}
addEventListener('resize', () => v && v.run && (grid(), chart()))
matchMedia('(prefers-color-scheme:dark)').onchange = () => v && v.run && grid()

// ---- news ---------------------------------------------------------------------------------------------------------

let events = ''
function take(kind, data) {
  if (kind === 'over') {
    over = data
    return told()
  }
  v = kind === 'all' ? data : Object.assign(v || {}, data)
  if (!v.trouble) heard = performance.now()
  if (v.run) {
    past = past.filter(h => v.generation === h.generation).slice(-9)
    past.push({at: performance.now(), begun: v.begun, steps: v.steps || 0, generation: v.generation})
    if (!events && !v.begun) $('what').value = 'behind'  // its program begins no collectives
    count()
    note()
    const now = JSON.stringify(v.events)
    if (now !== events) {
      events = now
      $('events').replaceChildren(...[...v.events].reverse().map(([at, text]) => {
        const li = el('li')
        li.append(el('span', clock(at) + '  ', 'dim'), el('span', text))
        return li
      }))
    }
    show()
  }
  told()
}
// What is drawn stays, however long nothing new is heard.
function told(nobody) {
  const quiet = heard ? Math.floor((performance.now() - heard) / 1000) : 0
  const old = heard && quiet >= kQuiet ? ' What is shown is ' + quiet + ' s old.' : ''
  const why = over ? 'No more news: ' + over + '.' : nobody || (v && v.trouble) || (old && 'no news')
  set($('age'), over ? 'over' : old ? '' : heard ? 'live' : '')
  $('trouble').hidden = !why
  set($('trouble'), why ? why + (over ? '' : (/[.]$/.test(why) ? '' : '.') + old) : '')
  if (over && v && v.run) show()
  else if (!v && why) set($('says'), 'not connected')
}

const token = location.hash.slice(1) || sessionStorage.getItem('token') || ''
const headers = {'X-Cxxrun-Token': token}
if (location.hash) {
  sessionStorage.setItem('token', token)
  window.history.replaceState(null, '', location.pathname)  // not in a bookmark or over a shoulder
}
let nobody = '', came = 1000 - kQuiet * 1000  // so the first event may take 1 s
const needs = 'This page needs the whole address that cxxrunctl has printed, with what follows the #.'
async function listen() {
  while (!over) {
    try {
      // jupyter-server-proxy passes on a stream as it comes for this Accept alone.
      const answer = await fetch('live', {headers: {...headers, Accept: 'text/event-stream'}, cache: 'no-store'})
      if (answer.status === 401) return void (nobody = needs, told(nobody))
      if (!answer.ok) throw 0
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
      for (let rest = ''; ;) {
        const {value, done} = await reader.read()
        if (done) break
        rest += value
        for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) {
          const parts = /^event: (\w+)\ndata: (.*)$/.exec(rest.slice(0, end))
          nobody = ''
          came = performance.now()
          if (parts) take(parts[1], JSON.parse(parts[2]))
        }
      }
    } catch (error) { nobody = 'cxxrunctl page does not answer: it has ended, or the way to it is cut.' }
    await new Promise(done => setTimeout(done, 1500))
  }
}
// The page is painted first; a hidden one is not.
if (document.hidden) listen(); else requestAnimationFrame(() => setTimeout(listen))
setInterval(() => over || told(nobody), 1000)
// A proxy may hold a stream back.
setInterval(async () => {
  if (over || nobody || performance.now() - came < kQuiet * 1000) return
  try {
    const answer = await fetch('state', {headers, cache: 'no-store'})
    if (answer.ok) take('all', await answer.json())
  } catch (error) { /* listen() says so */ }
}, 2000)
