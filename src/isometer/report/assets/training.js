// Heat maps of layers over steps, one per run, and curves that share their steps. Texts reach the page as text only.
const report = JSON.parse(document.getElementById('report').textContent);
const OFFLINE = { displaylogo: false, responsive: true, plotGlPixelRatio: 1, showSendToCloud: false };
const COLOURS = ['measured', 'predicted'];
const chosen = { table: 0, place: 0, scalar: 0, range: null };
let busy = false;

function byId(id) {
  return document.getElementById(id);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function literal(text) {
  return String(text).replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
}

function real(value) {
  if (value === 'inf') return Infinity;
  if (value === '-inf') return -Infinity;
  return value === null ? NaN : value;
}

function drawn(value) {
  if (!byId('log-values').checked) return Number.isFinite(value) ? value : null;
  return Number.isFinite(value) && value > 0 ? Math.log10(value) : null;
}

function layout(title, height) {
  const axis = { gridcolor: colour('grid'), zeroline: false, linecolor: colour('line') };
  const steps = byId('log-steps').checked ? 'log' : 'linear';
  const x = { ...axis, title: { text: 'step' }, type: steps };
  if (chosen.range) x.range = chosen.range;
  return {
    height, margin: { l: 170, r: 20, t: 20, b: 45 }, paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
    font: { color: colour('text'), size: 12 }, xaxis: x, yaxis: { ...axis, title: { text: title }, automargin: true },
    showlegend: report.runs.length > 1, legend: { orientation: 'h', y: 1.1 },
  };
}

function marks(runs) {
  return runs.flatMap((run) => run.warnings).map((warning) => ({
    type: 'line', x0: warning.step, x1: warning.step, y0: 0, y1: 1, yref: 'paper',
    line: { color: colour('severe'), width: 1, dash: 'dot' },
  }));
}

function sized(area, look) {
  area.style.height = `${look.height + 10}px`;
  area.style.minHeight = '0';
  return look;
}

function link(area) {
  area.removeAllListeners('plotly_relayout');
  area.on('plotly_relayout', (change) => {
    if (busy) return;
    if ('xaxis.range[0]' in change) chosen.range = [change['xaxis.range[0]'], change['xaxis.range[1]']];
    else if (change['xaxis.autorange']) chosen.range = null;
    else return;
    draw();
  });
}

function table() {
  return report.tables[chosen.table];
}

function unit(name) {
  return byId('log-values').checked ? `log₁₀ ${name}` : name;
}

function label(place) {
  return place.length > 28 ? `…${place.slice(-27)}` : place;
}

async function map(run, index) {
  const area = byId(`map-${index}`);
  const found = run.values[table().name];
  const places = report.places[table().over];
  const rows = places.map((_, place) => found.map((row) => drawn(real(row[place]))));
  const used = rows.map((row, place) => [row, place]).filter(([row]) => row.some((value) => value !== null));
  const trace = {
    type: 'heatmap', x: run.steps, y: used.map(([, place]) => `${place} ${label(places[place])}`), z: used.map(([row]) => row),
    colorscale: 'Viridis', hoverongaps: false,
    hovertemplate: 'step %{x}<br>%{y}<br><b>%{z:.4g}</b><extra></extra>', colorbar: { title: { text: unit(literal(table().title)), side: 'right' } },
  };
  const height = Math.max(220, Math.min(900, 60 + 16 * used.length));
  const look = { ...layout('', height), shapes: marks([run]) };
  look.yaxis.autorange = 'reversed';
  look.yaxis.type = 'category';
  await Plotly.react(area, [trace], sized(area, look), OFFLINE);
  area.removeAllListeners('plotly_click');
  area.on('plotly_click', (event) => {
    chosen.place = Number(String(event.points[0].y).split(' ')[0]);
    byId('place').value = String(chosen.place);
    draw();
  });
  link(area);
}

async function curve() {
  const traces = report.runs.map((run, index) => ({
    type: 'scatter', mode: 'lines+markers', name: literal(run.name), x: run.steps,
    y: run.values[table().name].map((row) => drawn(real(row[chosen.place]))), marker: { size: 4 },
    line: { color: colour(COLOURS[index % 2]), dash: index > 1 ? 'dash' : 'solid' },
  }));
  const look = { ...layout(unit(literal(table().title)), 300), shapes: marks(report.runs) };
  await Plotly.react(byId('curve'), traces, sized(byId('curve'), look), OFFLINE);
  link(byId('curve'));
}

async function whole() {
  const name = report.scalars[chosen.scalar];
  const traces = report.runs.map((run, index) => ({
    type: 'scatter', mode: 'lines', name: literal(run.name), x: run.scalars[name].steps,
    y: run.scalars[name].values.map((value) => drawn(real(value))), line: { color: colour(COLOURS[index % 2]) },
  }));
  const look = { ...layout(unit(literal(name)), 260), shapes: marks(report.runs) };
  await Plotly.react(byId('whole'), traces, sized(byId('whole'), look), OFFLINE);
  link(byId('whole'));
}

async function draw() {
  busy = true;
  byId('about').textContent = table() ? table().about : '';
  if (table()) {
    for (let index = 0; index < report.runs.length; index += 1) await map(report.runs[index], index);
    await curve();
  }
  if (report.scalars.length) await whole();
  busy = false;
}

function fill(id, texts, key) {
  const box = byId(id);
  box.replaceChildren();
  texts.forEach((text, index) => {
    const made = document.createElement('option');
    made.value = String(index);
    made.textContent = text;
    box.append(made);
  });
  box.onchange = () => {
    chosen[key] = Number(box.value);
    if (key === 'table') places();
    draw();
  };
}

function places() {
  if (!table()) return;
  fill('place', report.places[table().over].map((name, index) => `${index} ${name}`), 'place');
  chosen.place = 0;
  const first = report.runs[0].values[table().name];
  const known = report.places[table().over].findIndex((_, place) => first.some((row) => Number.isFinite(real(row[place]))));
  chosen.place = Math.max(0, known);
  byId('place').value = String(chosen.place);
  byId('log-values').checked = table().log;
}

report.runs.forEach((run, index) => {
  const figure = document.createElement('figure');
  const caption = document.createElement('figcaption');
  caption.textContent = report.runs.length > 1 ? run.name : '';
  const area = document.createElement('div');
  area.id = `map-${index}`;
  area.className = 'plot';
  figure.append(caption, area);
  byId('maps').append(figure);
});
fill('quantity', report.tables.map((one) => one.title), 'table');
fill('scalar', report.scalars, 'scalar');
for (const id of ['log-values', 'log-steps']) byId(id).onchange = () => { chosen.range = null; draw(); };
places();
draw();
