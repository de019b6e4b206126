/** What was kept of a job's rates, under the names that the page's series have. */

/** `[{at, values}]`, oldest first, of the answer to `penstock/rates`; none of what is not as it should be. */
export function earlier(job, kept) {
  const nodes = job.plan?.nodes ?? [];
  const read = new Set(nodes.flatMap((node) => (node.inputs ?? []).map((input) => input.id)));
  const sources = new Set(nodes.filter((node) => !(node.inputs ?? []).length).map((node) => node.id));
  const moments = Array.isArray(kept?.moments) ? kept.moments : [];
  return moments
    .filter((moment) => Number.isFinite(moment?.time))
    .map((moment) => ({ at: moment.time, values: named(moment.vertices ?? {}, sources, read) }));
}

function named(vertices, sources, read) {
  const values = {};
  for (const [id, rates] of Object.entries(vertices)) {
    for (const name of ["in", "out", "busy", "backpressured", "idle"]) values[`${id} ${name}`] = rates?.[name];
    if (sources.has(id)) values.in = (values.in ?? 0) + Math.max(rates?.in ?? 0, rates?.out ?? 0);
    if (!read.has(id)) values.out = (values.out ?? 0) + (rates?.in ?? rates?.out ?? 0);
  }
  return values;
}
