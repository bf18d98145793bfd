// Measured and predicted curves, shaded findings, the marked layer, and everything known about it.
const MARKERS = 400; // with more points than this a line alone is drawn

function place(layer) {
  return chosen.axis === 'depth' ? report.depth[layer] : layer;
}

function needsLog(metric) {
  if (metric.axis !== 'auto') return metric.axis === 'log';
  const finite = metric.values.filter(Number.isFinite);
  const low = finite.reduce((a, b) => Math.min(a, b), Infinity);
  const high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
  return finite.length > 1 && low > 0 && high > 50 * low;
}

function inOrder(layers) {
  return chosen.axis === 'depth' ? layers.sort((a, b) => report.depth[a] - report.depth[b] || a - b) : layers;
}

function line(metric, layers, values, style) {
  const points = layers.map((layer, i) => [layer, values[i]]).filter((p) => Number.isFinite(p[1]) && !(chosen.log && p[1] <= 0));
  return {
    type: 'scatter',
    x: points.map((p) => place(p[0])),
    y: points.map((p) => p[1]),
    customdata: points.map((p) => [p[0], reading(metric, p[1])]),
    mode: points.length > MARKERS ? 'lines' : 'lines+markers',
    marker: { size: points.length > 120 ? 4 : 6 },
    ...style,
  };
}

function hoverText(layer) {
  const again = report.call[layer] ? ` (call ${report.call[layer] + 1})` : '';
  return `<b>layer ${layer}</b> · depth ${report.depth[layer]}<br>${literal(elided(report.name[layer], 60))}${again}<br>` +
    `${literal(elided(report.op[layer], 40))} · ${literal(report.kind[layer])}`;
}

function measured(metric) {
  const layers = [];
  for (let layer = 0; layer < count; layer += 1) {
    if (!chosen.kind || report.kind[layer] === chosen.kind) layers.push(layer);
  }
  inOrder(layers);
  const trace = line(metric, layers, layers.map((layer) => metric.values[layer]), {
    name: 'measured', line: { color: colour('measured'), width: 2 },
    hovertemplate: '%{text}<br>measured: <b>%{customdata[1]}</b><extra></extra>',
  });
  trace.text = trace.customdata.map((point) => hoverText(point[0]));
  return [trace, edge(metric, layers)].filter((t) => t.x.length || t.name === 'measured');
}

// Infinite values, and those that a logarithmic axis cannot show, sit at the edge they point to.
function edge(metric, layers) {
  const values = metric.values;
  const out = layers.filter((layer) => values[layer] === Infinity || values[layer] === -Infinity || (chosen.log && values[layer] <= 0));
  return {
    type: 'scatter', mode: 'markers', yaxis: 'y2', name: 'off the scale',
    x: out.map(place),
    y: out.map((layer) => (values[layer] === Infinity ? 0.985 : 0.015)),
    text: out.map(hoverText),
    customdata: out.map((layer) => [layer, reading(metric, values[layer])]),
    marker: { size: 9, color: colour('severe'), symbol: out.map((layer) => (values[layer] === Infinity ? 'triangle-up' : 'triangle-down')) },
    hovertemplate: '%{text}<br>measured: <b>%{customdata[1]}</b><extra></extra>',
  };
}

function predicted(metric) {
  const band = report.prediction && report.prediction.metrics[metric.name];
  if (!band) return [];
  const index = new Map(report.prediction.layers.map((layer, i) => [layer, i]));
  // Attention and representations are read at different layers: a metric has numbers at some of them.
  const known = band.mean || band.infinite;
  const mine = inOrder([...index.keys()].filter((layer) => layer < count && !Number.isNaN(known[index.get(layer)])));
  const at = (values) => mine.map((layer) => values[index.get(layer)]);
  const traces = [];
  if (band.low && band.high) {
    const bounds = { mode: 'lines', line: { width: 0, color: colour('predicted') }, hoverinfo: 'skip' };
    const mean = at(band.mean);
    const floor = at(band.low).map((low, i) => (chosen.log && low <= 0 ? mean[i] : low));
    traces.push(line(metric, mine, floor, { ...bounds, showlegend: false }));
    traces.push(line(metric, mine, at(band.high), { ...bounds, name: '95 % band', fill: 'tonexty', fillcolor: faded(colour('predicted'), 0.2) }));
  }
  const drawn = { mode: 'lines', hovertemplate: 'predicted: %{customdata[1]}<extra></extra>' };
  if (band.mean) traces.push(line(metric, mine, at(band.mean), { ...drawn, name: 'predicted', line: { color: colour('predicted'), width: 2, dash: 'dash' } }));
  if (band.infinite) {
    traces.push(line(metric, mine, at(band.infinite), {
      ...drawn, name: 'infinite width', hovertemplate: 'infinite width: %{customdata[1]}<extra></extra>',
      line: { color: colour('infinite'), width: 2.5, dash: 'dot' },
    }));
  }
  return traces;
}

function companion(metric) {
  const other = metric.companion && metrics.get(metric.companion);
  if (!other) return [];
  const layers = report.name.map((_, i) => i).filter((i) => !chosen.kind || report.kind[i] === chosen.kind);
  return [line(other, inOrder(layers), layers.map((layer) => other.values[layer]), {
    name: other.title, mode: 'lines', line: { color: colour('predicted'), width: 1.5, dash: 'dash' },
    hovertemplate: `${literal(other.title)}: %{customdata[1]}<extra></extra>`,
  })];
}

// One path per finding: stretches of its layers, operations between two of them included.
function shading(finding) {
  const places = [...new Set(finding.layers.map(place))].sort((a, b) => a - b);
  const reach = chosen.axis === 'depth' ? 1 : 3;
  const runs = [];
  for (const x of places) {
    const last = runs[runs.length - 1];
    if (last && x - last[1] <= reach) last[1] = x;
    else runs.push([x, x]);
  }
  const path = runs.map(([a, b]) => `M${a - 0.5},0L${b + 0.5},0L${b + 0.5},1L${a - 0.5},1Z`).join('');
  if (!path) return [];
  return [{
    type: 'path', path, xref: 'x', yref: 'y2', layer: 'below', line: { width: 0 },
    fillcolor: faded(colour(finding.severity), 0.14),
  }];
}

function shapes(metric) {
  const made = [];
  if (chosen.finding !== null) made.push(...shading(report.findings[chosen.finding]));
  if (metric.reference !== null && !(chosen.log && metric.reference <= 0)) {
    made.push({ type: 'line', xref: 'paper', x0: 0, x1: 1, y0: metric.reference, y1: metric.reference, layer: 'below', line: { color: colour('soft'), width: 1, dash: 'dot' } });
  }
  metric.limits.forEach((level, i) => {
    const name = i ? 'severe' : 'moderate';
    made.push({
      type: 'line', name: `${name} limit`, xref: 'paper', x0: 0, x1: 1, y0: level, y1: level, layer: 'below',
      line: { color: colour(name), width: 1, dash: 'dash' },
    });
  });
  if (chosen.layer !== null) {
    const x = place(chosen.layer);
    made.push({ type: 'line', name: 'marked layer', x0: x, x1: x, yref: 'y2', y0: 0, y1: 1, line: { color: colour('mark'), width: 2 } });
  }
  return made;
}

function marked(metric) {
  if (chosen.layer === null) return [];
  const value = metric.values[chosen.layer];
  const visible = Number.isFinite(value) && !(chosen.log && value <= 0);
  return [{
    type: 'scatter', mode: 'markers', name: 'marked', showlegend: false, hoverinfo: 'skip',
    x: visible ? [place(chosen.layer)] : [], y: visible ? [value] : [],
    marker: { size: 13, color: 'rgba(0,0,0,0)', line: { color: colour('mark'), width: 3 } },
  }];
}

function axes(metric) {
  const ink = { color: colour('text'), gridcolor: colour('grid'), zerolinecolor: colour('grid'), linecolor: colour('line'), automargin: true };
  return {
    paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour('text') },
    margin: { l: 64, r: 16, t: 46, b: 48 },
    hovermode: 'x', hoverlabel: { bgcolor: colour('surface'), bordercolor: colour('line'), font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour('text') }, align: 'left' },
    legend: { orientation: 'h', x: 0, y: 1.02, yanchor: 'bottom' },
    showlegend: true,
    xaxis: { ...ink, title: { text: chosen.axis === 'depth' ? 'depth (weight layers from the input)' : 'layer (order of execution)' }, zeroline: false },
    yaxis: { ...ink, title: { text: literal(label(metric)) }, type: chosen.log ? 'log' : 'linear', exponentformat: 'power', zeroline: false },
    yaxis2: { overlaying: 'y', range: [0, 1], visible: false, fixedrange: true },
    modebar: { bgcolor: 'rgba(0,0,0,0)', color: colour('soft'), activecolor: colour('accent') },
    shapes: shapes(metric),
    uirevision: `${metric.name}|${chosen.axis}|${chosen.log}`,
  };
}

// Nothing in this page offers to send the report anywhere.
const OFFLINE = { responsive: true, displaylogo: false, showSendToCloud: false, showEditInChartStudio: false, plotlyServerURL: '' };
const TOOLS = {
  ...OFFLINE,
  modeBarButtonsToRemove: ['lasso2d', 'select2d', 'autoScale2d', 'zoomIn2d', 'zoomOut2d'],
};

function drawCurves() {
  const metric = metrics.get(chosen.metric);
  const area = byId('curve');
  if (!metric) {
    area.replaceChildren(element('p', 'Nothing was measured.', 'hint'));
    return;
  }
  const traces = [...predicted(metric), ...companion(metric), ...measured(metric), ...marked(metric)];
  Plotly.react(area, traces, axes(metric), TOOLS);
  if (!area.dataset.listening) {
    area.dataset.listening = 'yes';
    area.on('plotly_click', (event) => {
      const point = event.points.find((p) => p.customdata);
      if (point) markLayer(point.customdata[0]);
    });
  }
  const defined = metric.values.filter((value) => !Number.isNaN(value)).length;
  const outside = report.prediction && report.prediction.outside[metric.name];
  byId('about').textContent = [
    metric.about,
    metric.limits.length ? `Dashed lines: harm begins at ${exact(metric.limits[0])}, severe from ${exact(metric.limits[1])}.` : '',
    defined < count ? `Defined at ${defined} of ${count} layers.` : '',
    outside ? `The measured curve leaves the predicted band: ${outside}.` : '',
  ].filter(Boolean).join(' ');
  area.setAttribute('aria-label', `${metric.title} over the layers, also in the table below`);
  for (const tile of document.querySelectorAll('[data-vital]')) tile.setAttribute('aria-pressed', String(tile.dataset.vital === chosen.metric));
}

function chooseMetric(name) {
  if (!metrics.has(name)) return;
  chosen.metric = name;
  if (chosen.free) chosen.kind = usualKind(metrics.get(name));
  byId('kind').value = chosen.kind;
  chosen.log = needsLog(metrics.get(name));
  byId('metric').value = name;
  byId('log').checked = chosen.log;
}

function inspect() {
  const layer = chosen.layer;
  byId('previous').disabled = layer === null || layer === 0;
  byId('next').disabled = layer === null || layer === count - 1;
  if (layer === null) return;
  byId('inspector-title').textContent = `Layer ${layer}`;
  const target = byId('inspected');
  const facts = element('p', `${report.op[layer]} · ${report.kind[layer]} · depth ${report.depth[layer]} · ${report.shape[layer]} ${report.dtype[layer]} · ${report.site[layer]}`, 'hint');
  const parts = [element('p', report.name[layer], 'path'), facts];
  const flags = element('p');
  report.findings.forEach((finding) => finding.set.has(layer) && flags.append(element('span', finding.title, `flag ${finding.severity}`)));
  parts.push(flags);
  for (const group of report.groups) {
    const list = element('dl');
    for (const metric of report.metrics) {
      if (metric.group !== group || Number.isNaN(metric.values[layer])) continue;
      list.append(element('dt', metric.title), element('dd', reading(metric, metric.values[layer])));
    }
    if (list.childElementCount) parts.push(element('h4', group), list);
  }
  target.replaceChildren(...parts);
}
