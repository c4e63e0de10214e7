import { type Fuzzed, fuzzed } from "../run-fuzz.ts";
import { framed, holdsFramed } from "./framing.ts";
import { chunked, holdsChunked } from "./manifests.ts";
import { holdsMessage, holdsSpecText, message, specText } from "./messages.ts";
import { documentText, holdsDocument, holdsTree, tree } from "./xml.ts";

/** What is tried without a gateway. */
export const PARSERS: readonly Fuzzed[] = [
  fuzzed("bodies in the chunks of aws-chunked", { grammar: framed, holds: holdsFramed }),
  fuzzed("XML that is written and read", { grammar: tree, holds: holdsTree }),
  fuzzed("XML of clients", { grammar: documentText, holds: holdsDocument }),
  fuzzed("messages of the wire, pages of archives and specifications", {
    grammar: message,
    holds: holdsMessage,
  }),
  fuzzed("texts of specifications", { grammar: specText, holds: holdsSpecText }),
  fuzzed("manifests", { grammar: chunked, holds: holdsChunked }),
];
