import { useState } from "react";
import { counted, countText } from "../../../parts/words.tsx";

/** Most of what is in one list or object that is shown, and characters of a text. */
const MOST_ENTRIES = 200;
const MOST_CHARACTERS = 2000;

interface NodeProps {
  /** Its name in what it is in, or its number there. Absent: it is all of it. */
  readonly name?: string;
  readonly value: unknown;
  readonly isOpen?: boolean;
}

/** JSON as a tree: lists and objects unfold when they are looked into, and nothing of them is laid out before that. */
export function Tree({ value }: { readonly value: unknown }) {
  return (
    <div className="tree">
      <Node value={value} isOpen />
    </div>
  );
}

function Node({ name, value, isOpen: isOpenAtFirst = false }: NodeProps) {
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const label = name !== undefined && <span className="name">{name}: </span>;
  if (typeof value !== "object" || value === null) {
    return (
      <div className="leaf">
        {label}
        {leafText(value)}
      </div>
    );
  }
  const entries = Object.entries(value);
  const shown = isOpen ? entries.slice(0, MOST_ENTRIES) : [];
  return (
    <details
      open={isOpen}
      onToggle={({ currentTarget, target }) => target === currentTarget && setOpen(currentTarget.open)}
    >
      <summary>
        {label}
        <span className="quiet">
          {Array.isArray(value)
            ? `[${counted(entries.length, "entry", "entries")}]`
            : `{${counted(entries.length, "name")}}`}
        </span>
      </summary>
      {shown.map(([key, inner]) => (
        <Node key={key} name={key} value={inner} />
      ))}
      {isOpen && entries.length > MOST_ENTRIES && (
        <p className="quiet">and {countText(entries.length - MOST_ENTRIES)} more, which the text has</p>
      )}
    </details>
  );
}

function leafText(value: unknown): string {
  const text = JSON.stringify(value) ?? "";
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text;
}
