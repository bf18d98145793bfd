// The table of layers: searched, filtered and sorted whole, shown a page at a time.
const ROWS = 50;
const FACTS = [
  { key: 'layer', title: 'layer', of: (layer) => layer },
  { key: 'name', title: 'name', text: true, of: (layer) => report.name[layer] },
  { key: 'op', title: 'operation', text: true, of: (layer) => report.op[layer] },
  { key: 'kind', title: 'kind', text: true, of: (layer) => report.kind[layer] },
  { key: 'depth', title: 'depth', of: (layer) => report.depth[layer] },
];
const FLAGS = { key: 'flags', title: 'findings', text: true, of: (layer) => report.findings.filter((f) => f.set.has(layer)).length };
const sheet = { search: '', kind: '', finding: '', columns: 'overview', sort: 'layer', down: false, page: 0, rows: [] };
const haystack = report.name.map((name, i) => `${name} ${report.op[i]} ${report.kind[i]} ${report.dtype[i]} ${report.shape[i]}`.toLowerCase());

function sheetColumns() {
  const names = sheet.columns === 'overview'
    ? report.overview
    : report.metrics.filter((m) => sheet.columns === 'all' || m.group === sheet.columns).map((m) => m.name);
  const measures = names.map((name) => {
    const metric = metrics.get(name);
    return { key: name, title: label(metric), metric, of: (layer) => metric.values[layer] };
  });
  const more = sheet.columns === 'all' ? [
    { key: 'shape', title: 'shape', text: true, of: (layer) => report.shape[layer] },
    { key: 'dtype', title: 'dtype', text: true, of: (layer) => report.dtype[layer] },
    { key: 'site', title: 'site', text: true, of: (layer) => report.site[layer] },
  ] : [];
  return [...FACTS, ...(report.findings.length ? [FLAGS] : []), ...more, ...measures];
}

const collator = new Intl.Collator('en', { numeric: true });

function compare(a, b) {
  if (typeof a === 'string') return collator.compare(a, b);
  return a === b ? 0 : a - b; // ∞ − ∞ is no order
}

function arrange() {
  const words = sheet.search.toLowerCase().split(/\s+/).filter(Boolean);
  const finding = sheet.finding === '' ? null : report.findings[Number(sheet.finding)];
  const rows = [];
  for (let layer = 0; layer < count; layer += 1) {
    if (sheet.kind && report.kind[layer] !== sheet.kind) continue;
    if (finding && !finding.set.has(layer)) continue;
    if (words.every((word) => haystack[layer].includes(word))) rows.push(layer);
  }
  const column = sheetColumns().find((c) => c.key === sheet.sort) || FACTS[0];
  const undefinedLast = (value) => (typeof value === 'number' && Number.isNaN(value) ? 1 : 0);
  rows.sort((x, y) => {
    const [a, b] = [column.of(x), column.of(y)];
    return undefinedLast(a) - undefinedLast(b) || (sheet.down ? -1 : 1) * compare(a, b) || x - y;
  });
  sheet.rows = rows;
  sheet.page = Math.min(sheet.page, Math.max(0, Math.ceil(rows.length / ROWS) - 1));
}

function heading(column) {
  const cell = element('th', null, column.text ? 'text' : 'number');
  cell.scope = 'col';
  const sorted = sheet.sort === column.key;
  cell.setAttribute('aria-sort', sorted ? (sheet.down ? 'descending' : 'ascending') : 'none');
  const button = element('button', column.title);
  button.type = 'button';
  button.dataset.sort = column.key;
  cell.append(button);
  return cell;
}

function cellOf(column, layer) {
  const cell = element('td', null, column.text ? 'text' : 'number');
  if (column.key === 'layer') {
    const button = element('button', String(layer));
    button.type = 'button';
    button.dataset.row = String(layer);
    button.setAttribute('aria-label', `Mark layer ${layer}`);
    cell.append(button);
  } else if (column.key === 'flags') {
    report.findings.forEach((finding) => finding.set.has(layer) && cell.append(element('span', finding.title, `flag ${finding.severity}`)));
  } else if (column.key === 'name' || column.key === 'op') {
    cell.classList.add('name');
    cell.textContent = elided(column.of(layer), column.key === 'op' ? 20 : 60);
    cell.title = elided(column.of(layer), 400);
  } else {
    cell.textContent = column.metric ? plain(column.of(layer)) : column.of(layer);
  }
  return cell;
}

function drawTable() {
  arrange();
  const shown = sheetColumns();
  const [head, body] = [byId('table').tHead, byId('table').tBodies[0]];
  const top = element('tr');
  top.append(...shown.map(heading));
  head.replaceChildren(top);
  const from = sheet.page * ROWS;
  const rows = sheet.rows.slice(from, from + ROWS).map((layer) => {
    const row = element('tr', null, layer === chosen.layer ? 'marked' : '');
    row.dataset.layer = String(layer);
    if (layer === chosen.layer) row.setAttribute('aria-current', 'true');
    row.append(...shown.map((column) => cellOf(column, layer)));
    return row;
  });
  body.replaceChildren(...rows);
  const total = sheet.rows.length;
  const pages = Math.max(1, Math.ceil(total / ROWS));
  byId('table-status').textContent = total === count ? `${count} layers.` : `${total} of ${count} layers match.`;
  byId('page').textContent = `page ${sheet.page + 1} of ${pages}`;
  for (const id of ['page-first', 'page-previous']) byId(id).disabled = sheet.page === 0;
  for (const id of ['page-next', 'page-last']) byId(id).disabled = sheet.page >= pages - 1;
  document.querySelector('.pages').hidden = pages === 1;
}

// Turn to the page that holds the marked layer, if the filters let it through.
function turnToMarked() {
  arrange();
  const at = sheet.rows.indexOf(chosen.layer);
  if (at >= 0) sheet.page = Math.floor(at / ROWS);
}

function startTable() {
  fillKinds(byId('table-kind'));
  fillFindings(byId('table-finding'), 'any or none');
  const groups = report.groups.filter((group) => report.metrics.some((m) => m.group === group));
  byId('columns').append(option('overview', 'overview'), ...groups.map((g) => option(g, g.toLowerCase())), option('all', 'all'));
  const fresh = (key) => (event) => {
    sheet[key] = event.target.value;
    sheet.page = 0;
    drawTable();
  };
  byId('search').addEventListener('input', fresh('search'));
  byId('table-kind').addEventListener('change', fresh('kind'));
  byId('table-finding').addEventListener('change', fresh('finding'));
  byId('columns').addEventListener('change', fresh('columns'));
  const turn = (to) => () => {
    sheet.page = Math.max(0, to());
    drawTable();
  };
  byId('page-first').addEventListener('click', turn(() => 0));
  byId('page-previous').addEventListener('click', turn(() => sheet.page - 1));
  byId('page-next').addEventListener('click', turn(() => sheet.page + 1));
  byId('page-last').addEventListener('click', turn(() => Math.ceil(sheet.rows.length / ROWS) - 1));
  byId('table').addEventListener('click', (event) => {
    const sort = event.target.closest('[data-sort]');
    if (sort) {
      const key = sort.dataset.sort;
      sheet.down = sheet.sort === key ? !sheet.down : false;
      sheet.sort = key;
      sheet.page = 0;
      drawTable();
      byId('table').querySelector(`[data-sort="${CSS.escape(key)}"]`).focus();
      return;
    }
    const row = event.target.closest('tr[data-layer]');
    if (row) markLayer(Number(row.dataset.layer));
  });
}
