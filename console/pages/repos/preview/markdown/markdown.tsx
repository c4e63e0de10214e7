import type { MarkedToken, Token, Tokens } from "marked";
import { createElement, type ReactNode, useEffect, useState } from "react";

/*
 * A text of Markdown, drawn. What it is made of is found apart from the page (lexer.ts), and each piece becomes an element of the
 * list below, or text: raw HTML is text, a picture is its words and its address, and nothing is loaded from anywhere.
 */

/** Deeper than any text that is meant to be read: what lies below stands there as it was written. */
const MOST_DEPTH = 20;
/** A longer text is shown as such. */
const MOST_CHARACTERS = 256 * 1024;
/** Addresses that a link may lead to. */
const LINKED = /^(https?:\/\/|mailto:)/i;

interface MarkdownProps {
  readonly text: string;
  /** What is shown if it can't be drawn. */
  readonly otherwise: ReactNode;
}

export function Markdown({ text, otherwise }: MarkdownProps) {
  const [tokens, setTokens] = useState<readonly Token[] | "unreadable">();
  useEffect(() => {
    const leaving = new AbortController();
    const { signal } = leaving;
    const read = async (): Promise<readonly Token[]> => {
      if (text.length > MOST_CHARACTERS) throw new Error("it is too long");
      const { lexed } = await import("./lexer.ts");
      return await lexed(text, signal);
    };
    void read()
      .catch(() => "unreadable" as const)
      .then((found) => signal.aborted || setTokens(found));
    return () => leaving.abort();
  }, [text]);
  if (tokens === undefined) return <p className="quiet">Reading it…</p>;
  if (tokens === "unreadable") return otherwise;
  return (
    <div className="markdown">
      <Pieces tokens={tokens} depth={0} />
    </div>
  );
}

interface PiecesProps {
  readonly tokens: readonly Token[];
  readonly depth: number;
}

function Pieces({ tokens, depth }: PiecesProps): ReactNode {
  // biome-ignore lint/suspicious/noArrayIndexKey: pieces of a text have no other name, and never move.
  return tokens.map((token, index) => <Piece key={index} token={token} depth={depth} />);
}

interface PieceProps {
  readonly token: Token;
  readonly depth: number;
}

function Piece({ token, depth }: PieceProps): ReactNode {
  if (depth > MOST_DEPTH) return token.raw;
  const piece = token as MarkedToken;
  const inner = (tokens: readonly Token[]) => <Pieces tokens={tokens} depth={depth + 1} />;
  switch (piece.type) {
    case "heading":
      // The page has a heading, and so has the preview.
      return createElement(`h${Math.min(piece.depth + 2, 6)}`, null, inner(piece.tokens));
    case "paragraph":
      return <p>{inner(piece.tokens)}</p>;
    case "blockquote":
      return <blockquote>{inner(piece.tokens)}</blockquote>;
    case "list":
      return <List list={piece} depth={depth} />;
    case "code":
      return <Code text={piece.text} />;
    case "table":
      return <Cells table={piece} depth={depth} />;
    case "hr":
      return <hr />;
    case "br":
      return <br />;
    case "strong":
      return <strong>{inner(piece.tokens)}</strong>;
    case "em":
      return <em>{inner(piece.tokens)}</em>;
    case "del":
      return <s>{inner(piece.tokens)}</s>;
    case "codespan":
      return <code>{piece.text}</code>;
    case "link":
      return <Linked link={piece}>{inner(piece.tokens)}</Linked>;
    case "image":
      return <span className="quiet">{`[picture: ${piece.text || "without words"}, ${piece.href}]`}</span>;
    case "checkbox":
      return piece.checked ? "☑ " : "☐ ";
    case "text":
      return piece.tokens ? inner(piece.tokens) : withEntities(piece.text);
    case "escape":
      return piece.text;
    case "html":
      return piece.block ? <p>{piece.raw}</p> : piece.raw;
    case "space":
    case "def":
      return null;
    default:
      return token.raw;
  }
}

function List({
  list: { ordered, start, items },
  depth,
}: {
  readonly list: Tokens.List;
  readonly depth: number;
}) {
  const rows = items.map(({ tokens }, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: as above.
    <li key={index}>
      <Pieces tokens={tokens} depth={depth + 1} />
    </li>
  ));
  return ordered ? <ol start={start === "" ? 1 : start}>{rows}</ol> : <ul>{rows}</ul>;
}

function Code({ text }: { readonly text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys.
    <section className="text" aria-label="Code" tabIndex={0}>
      <pre>{text}</pre>
    </section>
  );
}

function Cells({ table: { header, rows }, depth }: { readonly table: Tokens.Table; readonly depth: number }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: as above.
    <section className="cells" aria-label="Table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {header.map(({ tokens }, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: as above.
              <th key={index} scope="col">
                <Pieces tokens={tokens} depth={depth + 1} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, number) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: as above.
            <tr key={number}>
              {row.map(({ tokens }, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: as above.
                <td key={index}>
                  <Pieces tokens={tokens} depth={depth + 1} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** A link that leads out of the console, and says whereto. Others, such as into the same folder, are their words. */
function Linked({ link: { href }, children }: { readonly link: Tokens.Link; readonly children: ReactNode }) {
  if (!LINKED.test(href)) return <span title={href}>{children}</span>;
  return (
    <a href={href} title={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}

const ENTITIES: Readonly<Record<string, string>> = {
  ...{ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", mdash: "—", ndash: "–" },
  ...{ hellip: "…", rarr: "→", larr: "←", times: "×", middot: "·" },
};

/** Characters that stand in the text by their names or numbers; what is none stays as it is. */
function withEntities(text: string): string {
  return text.replace(/&(#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]{2,8});/gi, (whole, name: string) => {
    if (!name.startsWith("#")) return ENTITIES[name] ?? whole;
    const isHex = name[1]?.toLowerCase() === "x";
    const code = Number.parseInt(name.slice(isHex ? 2 : 1), isHex ? 16 : 10);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
