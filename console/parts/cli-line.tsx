import { Fragment, useState } from "react";
import { Button } from "./form.tsx";

/*
 * Command lines that people copy from a page into their shell. What a page puts into one may come from an address that
 * somebody sent them, so a line is made by `command` alone, which quotes.
 */

/** A command line, or words of one, that a shell takes as they are meant. */
export class CommandLine {
  readonly text: string;
  /** For `command`: anything else may be no line that a shell takes as it is meant. */
  constructor(text: string) {
    this.text = text;
  }
}

/** A command line. A text in it is one word; words that are quoted already go in as they are, with blanks between them. */
export function command(
  parts: TemplateStringsArray,
  ...words: readonly (string | CommandLine | readonly CommandLine[])[]
): CommandLine {
  return new CommandLine(parts.reduce((line, part, index) => line + quoted(words[index - 1] ?? "") + part));
}

function quoted(words: string | CommandLine | readonly CommandLine[]): string {
  if (typeof words === "string") return shellWord(words);
  if (words instanceof CommandLine) return words.text;
  return words.map(({ text }) => text).join(" ");
}

/** What a terminal obeys, also in quotes and while it is pasted: `\x1b[201~` ends what is taken for pasted. */
const CONTROL = /[\0-\x1f\x7f-\x9f]/;

/** As a POSIX shell takes it for one word. Controls are written out ($'…' is in POSIX since 2024, in bash and zsh for long). */
function shellWord(text: string): string {
  if (/^[\w./:@%+=,-]+$/.test(text)) return text;
  if (!CONTROL.test(text)) return `'${text.replaceAll("'", "'\\''")}'`;
  return `$'${text.replace(/[\0-\x1f\x7f-\x9f'\\]/g, escaped)}'`;
}

function escaped(character: string): string {
  if (character === "'" || character === "\\") return `\\${character}`;
  // By its bytes. A NUL would end the word.
  const bytes = [...new TextEncoder().encode(character)].filter((byte) => byte !== 0);
  return bytes.map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
}

/** A line for a terminal, with a button that copies it. */
export function CliLine({ line: { text } }: { readonly line: CommandLine }) {
  return (
    <span className="cli">
      <code>
        {text.split(" ").map((word, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the words of a line do not move.
          <Fragment key={index}>
            {index > 0 && " "}
            <span>{word}</span>
          </Fragment>
        ))}
      </code>
      <Copy text={text} />
    </span>
  );
}

/** A button that copies a text. `what` it is, for who hears the page: if it is absent, the text itself. */
export function Copy({ text, what }: { readonly text: string; readonly what?: string }) {
  const [isCopied, setCopied] = useState(false);
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // The browser does not let us: it can be selected and copied by hand.
      return;
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  }
  return (
    <>
      <Button act={copy} aria-label={what === undefined ? `Copy: ${text}` : `Copy ${what}`}>
        {isCopied ? "Copied" : "Copy"}
      </Button>
      <span className="hidden" role="status">
        {isCopied ? ["Copied", what].filter(Boolean).join(" ") : ""}
      </span>
    </>
  );
}
