import fc from "fast-check";

/** Characters that mean something to one reader or another, and texts that are hard on those that count, look up or convert. */
const ODD_TEXTS = [
  "",
  " ",
  "/",
  "//",
  ".",
  "..",
  "a/../b",
  "%",
  "%00",
  "%zz",
  "%2F",
  "+",
  "&",
  "<",
  "]]>",
  "<!--",
  "&amp;",
  "&#0;",
  '"',
  "'",
  "\\",
  "\\u0000",
  "-1",
  "0",
  "1e9",
  "9007199254740993",
  "99999999999999999999",
  "NaN",
  "null",
  "true",
  "__proto__",
  "constructor",
  "toString",
  "é",
  "日本",
  "😀",
  "\u202e",
  "x".repeat(300),
  "1970-01-01T00:00:00Z",
  "Thu, 01 Jan 1970 00:00:00 GMT",
] as const;

export const oddText = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...ODD_TEXTS) },
  { weight: 1, arbitrary: fc.string({ maxLength: 12, unit: "grapheme" }) },
);

/** For the value of a header: no line ends there but at its end. */
export const oddHeader = oddText.map((text) => text.replace(/[\r\n\0]/g, ""));

/** Where in a text something is changed, from 0 to 1, and how. */
interface Flaw {
  readonly at: number;
  readonly length: number;
  readonly how: "cut" | "drop" | "repeat" | "put";
  readonly put: string;
}

const flaw: fc.Arbitrary<Flaw> = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.integer({ min: 1, max: 30 }),
  how: fc.constantFrom("cut", "drop", "repeat", "put"),
  put: oddText,
});

function flawed(text: string, { at, length, how, put }: Flaw): string {
  const from = Math.floor(at * text.length);
  const [before, there, behind] = [
    text.slice(0, from),
    text.slice(from, from + length),
    text.slice(from + length),
  ];
  switch (how) {
    case "cut":
      return before;
    case "drop":
      return before + behind;
    case "repeat":
      return before + there + there + behind;
    case "put":
      return before + put + there + behind;
  }
}

/** A text with one to three flaws. */
export function spoiled(text: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc
    .tuple(text, fc.array(flaw, { minLength: 1, maxLength: 3 }))
    .map(([whole, flaws]) => flaws.reduce(flawed, whole));
}

/** A text as it is, and one time in eight with flaws. */
export function mostlyWhole(text: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.oneof({ weight: 7, arbitrary: text }, { weight: 1, arbitrary: spoiled(text) });
}
