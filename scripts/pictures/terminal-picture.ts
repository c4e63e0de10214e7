/** Longer lines are cut, as a terminal of this width would cut a table. */
const COLUMNS = 110;
const [CHARACTER_WIDTH, LINE_HEIGHT, FONT_SIZE, MARGIN] = [7.83, 19, 13, 18];

/** What is told apart by its colour: the parts of a line, in the order in which they are looked for. */
const COLOURS: readonly (readonly [RegExp, string])[] = [
  [/^\[ *[\d.]+ s\]/, "#7d8590"],
  [/^\$ .*/, "#e6edf3"],
  [/s3:\/\/[^\s:]+/, "#79c0ff"],
  [/\b(success|agrees)\b/, "#7ee787"],
  [/\b(\d+ (processed|skipped))/, "#d2a8ff"],
];

/** An SVG of a terminal in which a command was typed that printed this. */
export function terminalPicture(command: string, printed: string): string {
  const lines = [`$ ${command}`, ...printed.trimEnd().split("\n")].map(cut);
  const width = Math.round(COLUMNS * CHARACTER_WIDTH + 2 * MARGIN);
  const height = lines.length * LINE_HEIGHT + 2 * MARGIN;
  const texts = lines.flatMap((line, index) => {
    const y = MARGIN + index * LINE_HEIGHT + FONT_SIZE;
    return line === "" ? [] : [`<text x="${MARGIN}" y="${y}">${coloured(line)}</text>`];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">`,
    `<title>${escaped(command)}</title>`,
    `<style>text { font: ${FONT_SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #c9d1d9; white-space: pre }</style>`,
    `<rect width="100%" height="100%" rx="8" fill="#0d1117"/>`,
    ...texts,
    "</svg>\n",
  ].join("\n");
}

function cut(line: string): string {
  return line.length > COLUMNS ? `${line.slice(0, COLUMNS - 1)}…` : line;
}

function coloured(line: string): string {
  for (const [pattern, colour] of COLOURS) {
    const found = pattern.exec(line);
    if (!found?.[0]) continue;
    const [before, after] = [line.slice(0, found.index), line.slice(found.index + found[0].length)];
    return `${coloured(before)}<tspan fill="${colour}">${escaped(found[0])}</tspan>${coloured(after)}`;
  }
  return escaped(line);
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
