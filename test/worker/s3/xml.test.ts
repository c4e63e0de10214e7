import { expect, test } from "vitest";
import { parseXml, tagsOf, xmlAnswer, xmlBody } from "../../../worker/s3/answer/xml.ts";

const BOUNDS = { tags: 100 };
const DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n';

test("tags come in order, absent ones are left out, lists repeat their tag", () => {
  expect(xmlBody("R", { A: "", B: undefined, C: [{ D: 1 }, { D: true }], E: [] })).toBe(
    `${DECLARATION}<R><A></A><C><D>1</D></C><C><D>true</D></C></R>`,
  );
});

test("text is escaped, and what XML cannot carry is replaced", () => {
  expect(xmlBody("R", { A: "<&>\"'\r\n\t😀" })).toContain("<A>&lt;&amp;&gt;&quot;'&#13;\n\t😀</A>");
  expect(xmlBody("R", { A: "a\u0001b\u0000c\ufffed\ud800e" })).toContain(
    "<A>a\ufffdb\ufffdc\ufffdd\ufffde</A>",
  );
});

test("an answer is in S3's namespace", async () => {
  expect(await xmlAnswer("R", "x").text()).toBe(
    `${DECLARATION}<R xmlns="http://s3.amazonaws.com/doc/2006-03-01/">x</R>`,
  );
});

test("groups of tags keep their order", async () => {
  const groups = [{ A: 1, B: 2 }, { C: "x" }, { A: 3 }];
  expect(await xmlAnswer("R", groups).text()).toBe(
    `${DECLARATION}<R xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><A>1</A><B>2</B><C>x</C><A>3</A></R>`,
  );
});

test("what is written is read back as it was", () => {
  const text = " <&>\"' é日😀\r\n ";
  expect(tagsOf(parseXml(xmlBody("R", { A: text }), "R", BOUNDS)).get("A")).toEqual([text]);
});

test("entities, character references, CDATA, comments and name spaces are read as XML says", () => {
  const parsed = parseXml(
    '<s:R xmlns:s="x"><!-- c --><s:A>&amp;&#x41;&#66;</s:A><s:A><![CDATA[<&amp;]]></s:A><s:A/></s:R>',
    "R",
    BOUNDS,
  );
  expect(tagsOf(parsed).get("A")).toEqual(["&AB", "<&amp;", ""]);
});

test.each([
  ["nothing", ""],
  ["text", "hello"],
  ["an open tag", "<R><A></R>"],
  ["text after the end", "<R></R>more"],
  ["another root", "<Q></Q>"],
  ["two roots", "<R></R><R></R>"],
  ["a DOCTYPE", '<!DOCTYPE R [<!ENTITY x "y">]><R>&x;</R>'],
  ["an unknown entity", "<R>&nbsp;</R>"],
  ["a reference to no character", "<R>&#0;</R>"],
  ["a reference to a surrogate", "<R>&#xD800;</R>"],
  ["a bare ampersand", "<R>a & b</R>"],
  ["deep nesting", `${"<R>".repeat(100)}${"</R>".repeat(100)}`],
  ["a name that JavaScript reserves", "<R><__proto__>1</__proto__></R>"],
])("%s is MalformedXML", (_what, text) => {
  expect(() => parseXml(text, "R", BOUNDS)).toThrow(expect.objectContaining({ code: "MalformedXML" }));
});

test("a document is refused at the first tag that is too many, before it is parsed", () => {
  const bounds = { tags: 8, most: { tag: "P", count: 2 } };
  const refused = (text: string) => expect(() => parseXml(`<R>${text}</R>`, "R", bounds));
  // What does not parse shows that nothing is parsed.
  refused("<P/><P/><P/><").toThrow("R has more than 2 Ps");
  refused("<P></P><P></P><Q/><Q/><").toThrow("R holds more than 8 tags");
  expect(parseXml("<R><P/><P/><Parts/><P-x/><x:P/></R>", "R", bounds)).toBeTypeOf("object");
});
