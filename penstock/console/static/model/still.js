/** Since when each subtask's watermark stands where it stands, as far as this page has seen. */

export class StillWatch {
  #seen = new Map();

  see(look) {
    for (const vertex of look.vertices) {
      for (const { subtask, value } of vertex.watermarks) {
        const key = `${vertex.id} ${subtask}`;
        const before = this.#seen.get(key);
        if (!before || before.value !== value) this.#seen.set(key, { value, since: look.now });
      }
    }
  }

  since(vertex, subtask) {
    return this.#seen.get(`${vertex} ${subtask}`)?.since;
  }
}
