const COUNT = new Intl.NumberFormat(undefined);

/** A number with its thousands apart. */
export function countText(count: number): string {
  return COUNT.format(count);
}

/** `1 job`, `2 jobs` */
export function counted(count: number, one: string, many: string = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

/** How much of an id tells it from others to a person: its end. */
export function shortId(id: string): string {
  return id.length > 10 ? `…${id.slice(-6)}` : id;
}
