import { countText } from "./numbers.ts";

interface FigureProps {
  readonly count: number;
  readonly word: string;
  /** "+" if there are more than were counted. */
  readonly plus?: string;
  readonly tone?: "bad" | "";
}

/** A large number with its word, for the head of a page. */
export function Figure({ count, word, plus = "", tone = "" }: FigureProps) {
  return (
    <span className={`figure ${tone} ${count === 0 ? "none" : ""}`}>
      <b>
        {countText(count)}
        {count > 0 && plus}
      </b>{" "}
      {word}
    </span>
  );
}
