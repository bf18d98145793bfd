// The report, what is chosen, and how numbers read. Texts of the report reach the page as textContent only.
const report = JSON.parse(document.getElementById('report').textContent);
const count = report.name.length;
const metrics = new Map(report.metrics.map((metric) => [metric.name, metric]));
const chosen = { metric: null, kind: '', free: true, axis: 'layer', log: false, finding: null, layer: null };

for (const metric of report.metrics) metric.values = metric.values.map(real);
if (report.prediction) {
  for (const band of Object.values(report.prediction.metrics)) {
    for (const key of Object.keys(band)) band[key] = band[key].map(real);
  }
}
for (const finding of report.findings) finding.set = new Set(finding.layers);

function real(value) {
  if (value === 'inf') return Infinity;
  if (value === '-inf') return -Infinity;
  return value === null ? NaN : value;
}

function byId(id) {
  return document.getElementById(id);
}

function element(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  if (name) made.className = name;
  return made;
}

function option(value, text) {
  const made = element('option', text);
  made.value = value;
  return made;
}

function plain(value) {
  if (Number.isNaN(value)) return '–';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  if (value === 0) return '0';
  const size = Math.abs(value);
  const text = size >= 1e5 || size < 1e-4 ? value.toExponential(2).replace('e+', 'e') : String(Number(value.toPrecision(4)));
  return text.replaceAll('-', '−');
}

// A limit close to 1 keeps its distance to 1.
function exact(value) {
  return String(Number(value.toPrecision(6)));
}

// 10^value, also where that is not a number of JavaScript any more.
function powerOfTen(value) {
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '0';
  const exponent = Math.floor(value);
  if (exponent >= -4 && exponent < 5) return plain(Number((10 ** value).toPrecision(3)));
  return `${(10 ** (value - exponent)).toFixed(2)}e${exponent}`.replaceAll('-', '−');
}

function reading(metric, value) {
  if (Number.isNaN(value)) return '–';
  if (metric.unit === 'log₁₀') return powerOfTen(value);
  return metric.unit === '°' ? `${plain(value)}°` : `${plain(value)} ${metric.unit}`.trimEnd();
}

function label(metric) {
  return metric.unit ? `${metric.title} (${metric.unit})` : metric.title;
}

function elided(text, width) {
  if (text.length <= width) return text;
  const head = Math.floor((width - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (width - 1 - head))}`;
}

// Plotly reads a few tags and entities in its texts; names are not markup.
function literal(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function kinds() {
  const tally = new Map();
  for (const kind of report.kind) tally.set(kind, (tally.get(kind) || 0) + 1);
  return [...tally.entries()].sort((a, b) => b[1] - a[1]);
}

// The kind of site that a curve is about: that of its prediction, of its finding, or the most common one. Sites of
// several kinds on one line zigzag.
function usualKind(metric) {
  const finding = chosen.finding === null ? null : report.findings[chosen.finding];
  const about = (layer) => layer < count && report.kind[layer] !== 'input' && !Number.isNaN(metric.values[layer]);
  const predicted = report.prediction && report.prediction.metrics[metric.name] ? report.prediction.layers : [];
  const shown = finding && finding.metric === metric.name ? finding.layers : [];
  const pools = [predicted, shown, report.kind.map((_, layer) => layer)];
  const pool = pools.map((layers) => layers.filter(about)).find((layers) => layers.length) || [];
  const tally = new Map();
  for (const layer of pool) tally.set(report.kind[layer], (tally.get(report.kind[layer]) || 0) + 1);
  return [...tally.entries()].sort((a, b) => b[1] - a[1]).map((entry) => entry[0])[0] || '';
}

function fillKinds(select) {
  select.append(option('', `all (${count})`));
  for (const [kind, tally] of kinds()) select.append(option(kind, `${kind} (${tally})`));
}

function fillFindings(select, none) {
  select.append(option('', none));
  report.findings.forEach((finding, i) => select.append(option(String(i), `${finding.title} (${finding.layers.length})`)));
  select.closest('label').hidden = report.findings.length === 0;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function faded(hex, alpha) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${r},${g},${b},${alpha})`;
}
