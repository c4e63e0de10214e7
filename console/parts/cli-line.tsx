import { Fragment, useState } from "react";

/** A line for a terminal, with a button that copies it. */
export function CliLine({ line }: { readonly line: string }) {
  const [isCopied, setCopied] = useState(false);
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(line);
    } catch {
      // The browser does not let us: the line can be selected and copied by hand.
      return;
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  }
  return (
    <span className="cli">
      <code>
        {line.split(" ").map((word, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the words of a line do not move.
          <Fragment key={index}>
            {index > 0 && " "}
            <span>{word}</span>
          </Fragment>
        ))}
      </code>
      <button type="button" onClick={() => void copy()} aria-label={`Copy: ${line}`}>
        {isCopied ? "Copied" : "Copy"}
      </button>
      <span className="hidden" role="status">
        {isCopied ? "Copied" : ""}
      </span>
    </span>
  );
}
