import { lexer, type Token } from "marked";
import { doApart, serveApart } from "../../../../parts/apart.ts";

/** What a text of Markdown is made of: nothing of it is HTML yet, and nothing of it becomes that. */
export function lexed(text: string, signal: AbortSignal): Promise<readonly Token[]> {
  return doApart(import.meta.url, text, { signal });
}

serveApart((text: string): readonly Token[] => [...lexer(text)]);
