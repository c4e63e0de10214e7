import { expect, test } from "vitest";
import { printCsvDiff } from "../../../cli/diff/csv.ts";
import { rowsOf } from "../../../cli/diff/rows.ts";
import { SortedLines } from "../../../cli/diff/sorted-lines.ts";

async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function rows(text: string | Buffer, { size = 7, separator = "," } = {}): Promise<string[][]> {
  const all: string[][] = [];
  for await (const batch of rowsOf(inPieces(Buffer.from(text), size), { separator })) all.push(...batch);
  return all;
}

test("rows are the same in whatever pieces they come", async () => {
  const text = '\ufeffid,"a ""b""",c\r\n1,"two\r\nlines, ü😀",\r\n\r\n"","""",x\r\n2,,y';
  const expected = [
    ["id", 'a "b"', "c"],
    ["1", "two\nlines, ü😀", ""],
    ["", '"', "x"],
    ["2", "", "y"],
  ];
  for (let size = 1; size < 40; size++) expect(await rows(text, { size }), `${size}`).toEqual(expected);
});

test("what is no CSV is told by its row", async () => {
  await expect(rows("a,b\n1\n")).rejects.toThrow("row 2 is no CSV: it has 1 fields, and the header 2");
  await expect(rows('a,b\n1,2\n3,"4\n5,6\n')).rejects.toThrow("row 3 is no CSV: Quoted field unterminated");
  const long = `a\n1\n"${"x\n".repeat(2_500_000)}`;
  await expect(rows(long, { size: 65_536 })).rejects.toThrow("row 3 is no CSV: it is longer than 4.0 MiB");
  await expect(rows(Buffer.from([0x61, 0x0a, 0xe9, 0x0a]))).rejects.toThrow("it is not UTF-8");
});

test("a file of more than 1 GiB is refused before it is read", async () => {
  const read = (): AsyncGenerator<Buffer> => {
    throw new Error("it was read");
  };
  const file = { path: "a.csv", before: null, after: { size: 2 ** 30 + 1, read } };
  const refused = printCsvDiff(file, { keys: [], stat: true, json: false });
  await expect(refused).rejects.toThrow("files of at most 1.0 GiB are compared by rows");
});

test("lines of many runs on disk come back in order, each as often as it was added", () => {
  const sorted = new SortedLines();
  // Some 9 MiB: three runs.
  const lines = Array.from({ length: 90_000 }, (_, at) => `${(at * 7919) % 45_000} ${"ü".repeat(90)}`);
  for (const line of lines) sorted.add(line);
  expect([...sorted.read()]).toEqual(lines.toSorted());
  sorted.close();
});
