// What the reader does, and what follows from it.
function markLayer(layer) {
  chosen.layer = layer;
  inspect();
  turnToMarked();
  drawCurves();
  const focused = document.activeElement && document.activeElement.dataset.row;
  drawTable();
  if (focused !== undefined && focused !== null) {
    const again = byId('table').querySelector(`[data-row="${CSS.escape(focused)}"]`);
    if (again) again.focus();
  }
}

function chooseFinding(index) {
  chosen.finding = index;
  byId('finding').value = index === null ? '' : String(index);
}

function showFinding(index, metric) {
  chooseFinding(index);
  chosen.free = true;
  if (metric) chooseMetric(metric);
}

function scrollTo(id) {
  byId(id).scrollIntoView({ block: 'start' });
}

function copyCode(button) {
  const code = button.parentElement.querySelector('code');
  const done = () => { button.textContent = 'Copied'; };
  const byHand = () => {
    getSelection().selectAllChildren(code);
    if (document.execCommand('copy')) done();
  };
  if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, byHand);
  else byHand();
}

function openAdvice(event) {
  const link = event.target.closest('a[href^="#advice-"]');
  const folded = link && document.querySelector(link.getAttribute('href')).closest('details');
  if (folded) folded.open = true;
}

function onClick(event) {
  const copied = event.target.closest('[data-copy]');
  if (copied) copyCode(copied);
  openAdvice(event);
  const target = event.target.closest('[data-layer][data-of], [data-finding], [data-finding-table], [data-vital]');
  if (!target) return;
  const { layer, of, finding, findingTable, vital } = target.dataset;
  event.preventDefault();
  if (layer !== undefined) {
    const index = Number(of);
    showFinding(index, report.findings[index].metric);
    if (sheet.finding !== '' && sheet.finding !== of) {
      sheet.finding = '';
      byId('table-finding').value = '';
    }
    markLayer(Number(layer));
    scrollTo('curves');
  } else if (finding !== undefined) {
    const index = Number(finding);
    showFinding(index, report.findings[index].metric);
    drawCurves();
    scrollTo('curves');
  } else if (findingTable !== undefined) {
    Object.assign(sheet, { finding: findingTable, search: '', kind: '', page: 0 });
    byId('table-finding').value = findingTable;
    byId('search').value = '';
    byId('table-kind').value = '';
    drawTable();
    scrollTo('layers');
  } else {
    chooseMetric(vital);
    drawCurves();
    scrollTo('curves');
  }
}

function startControls() {
  const select = byId('metric');
  for (const group of report.groups) {
    const mine = report.metrics.filter((metric) => metric.group === group);
    if (!mine.length) continue;
    const holder = element('optgroup');
    holder.label = group;
    holder.append(...mine.map((metric) => option(metric.name, label(metric))));
    select.append(holder);
  }
  fillKinds(byId('kind'));
  fillFindings(byId('finding'), 'none');
  const redraw = (change) => (event) => {
    change(event.target);
    drawCurves();
  };
  select.addEventListener('change', redraw((target) => chooseMetric(target.value)));
  byId('kind').addEventListener('change', redraw((target) => { Object.assign(chosen, { kind: target.value, free: false }); }));
  byId('finding').addEventListener('change', redraw((target) => chooseFinding(target.value === '' ? null : Number(target.value))));
  byId('log').addEventListener('change', redraw((target) => { chosen.log = target.checked; }));
  for (const radio of document.querySelectorAll('input[name="axis"]')) radio.addEventListener('change', redraw((target) => { chosen.axis = target.value; }));
  byId('previous').addEventListener('click', () => markLayer(Math.max(0, chosen.layer - 1)));
  byId('next').addEventListener('click', () => markLayer(Math.min(count - 1, chosen.layer + 1)));
  document.addEventListener('click', onClick);
  const note = byId('prediction-note');
  if (report.prediction) note.textContent = `Prediction${report.prediction.network ? ` for ${report.prediction.network.replace(/\d+\.\d{5,}/g, text => String(Number(Number(text).toPrecision(4))))}` : ''}: ${report.prediction.note}`;
  else if (report.no_prediction) note.textContent = `No prediction: ${report.no_prediction}`;
  note.hidden = !note.textContent;
}

function start() {
  startControls();
  startGrams();
  startTable();
  const worst = report.findings[0];
  if (worst) chooseFinding(0);
  chooseMetric((worst && worst.metric) || (metrics.has('mean_abs_cosine') ? 'mean_abs_cosine' : (report.metrics[0] || {}).name));
  chosen.layer = report.guilty;
  inspect();
  drawCurves();
  drawGrams();
  drawTable();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    drawCurves();
    drawGrams();
  });
}

start();
