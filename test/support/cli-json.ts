/** What the command line printed with `--json`, with its times as the wire has them: milliseconds since 1970. */
export function parseCliJson(text: string): ReturnType<typeof JSON.parse> {
  return JSON.parse(text, (name, value) =>
    /^at$|At$/.test(name) && typeof value === "string" ? Date.parse(value) : value,
  );
}
