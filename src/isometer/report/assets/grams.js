// Heat maps of cosines between samples: the first stored layer beside a chosen one.
function cosines(at) {
  const { sizes, cosines: packed, steps, missing } = report.grams;
  const size = sizes[at];
  const full = Array.from({ length: size }, () => new Array(size).fill(null));
  let next = 0;
  for (let i = 0; i < size; i += 1) {
    for (let j = i; j < size; j += 1) {
      const value = packed[at][next] === missing ? null : packed[at][next] / steps;
      full[i][j] = value;
      full[j][i] = value;
      next += 1;
    }
  }
  return full;
}

function likeness(at) {
  const { sizes, cosines: packed, steps, missing } = report.grams;
  let [sum, tally, next] = [0, 0, 0];
  for (let i = 0; i < sizes[at]; i += 1) {
    for (let j = i; j < sizes[at]; j += 1, next += 1) {
      if (i === j || packed[at][next] === missing) continue;
      sum += Math.abs(packed[at][next]) / steps;
      tally += 1;
    }
  }
  return tally ? sum / tally : NaN;
}

function drawGram(id, at) {
  const layer = report.grams.layers[at];
  const ink = { color: colour('text'), showgrid: false, zeroline: false, ticks: '', constrain: 'domain' };
  const map = {
    type: 'heatmap', z: cosines(at), zmin: -1, zmax: 1, hoverongaps: false,
    colorscale: [[0, colour('cold')], [0.5, colour('zero')], [1, colour('warm')]],
    colorbar: { thickness: 12, outlinewidth: 0, tickvals: [-1, -0.5, 0, 0.5, 1], tickfont: { color: colour('text') }, title: { text: 'cos', font: { color: colour('text') } } },
    hovertemplate: 'samples %{y} and %{x}<br>cosine %{z:.4f}<extra></extra>',
  };
  const layout = {
    paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', margin: { l: 46, r: 8, t: 12, b: 40 },
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour('text') },
    xaxis: { ...ink, title: { text: 'sample' } },
    yaxis: { ...ink, autorange: 'reversed', scaleanchor: 'x', title: { text: 'sample' } },
  };
  Plotly.react(byId(id), [map], layout, { ...OFFLINE, displayModeBar: false });
  const caption = `Layer ${layer} · ${elided(report.name[layer], 60)} · mean |cos| ${plain(Number(likeness(at).toFixed(4)))}`;
  byId(`${id}-caption`).textContent = caption;
  byId(id).setAttribute('aria-label', `Cosines between samples. ${caption}`);
}

function drawGrams() {
  if (!report.grams) return;
  byId('grams').hidden = false;
  const slider = byId('gram');
  const at = Number(slider.value);
  const layer = report.grams.layers[at];
  byId('gram-label').textContent = `Layer ${layer} of ${count - 1}`;
  slider.setAttribute('aria-valuetext', `layer ${layer}, ${report.name[layer]}`);
  drawGram('gram-first', 0);
  drawGram('gram-chosen', at);
}

function startGrams() {
  if (!report.grams) return;
  const slider = byId('gram');
  const { layers, stored } = report.grams;
  slider.max = String(layers.length - 1);
  slider.value = slider.max;
  slider.addEventListener('input', drawGrams);
  byId('gram-note').textContent = layers.length < stored
    ? `${layers.length} of ${stored} stored layers are in this page.`
    : `Stored for ${layers.length} of ${count} layers.`;
}
