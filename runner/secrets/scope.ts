/*
 * Which pipelines may use a secret.
 *
 * A specification names secrets, and whoever may submit one for a pipeline may print what its command sees. So a secret has
 * an owner, who says beside it which pipelines may use it: names of pipelines, or `*` for all of them. A secret that says
 * nothing serves the pipelines of keys for all repos, and no others: such a key may do everything, so it gains nothing.
 *
 * A pipeline belongs to the key that last created or updated it, and the gateway says with each lease whether that one is
 * limited to repos. It says it together with the command, of one version: a command that a limited key wrote never comes
 * as an unlimited pipeline's.
 */
import { NAME_PATTERN } from "../../protocol/names.ts";
import { type Scope, SecretMissing } from "./source.ts";

/** Who asks for a secret. */
export interface Asker {
  readonly pipeline: string;
  /** Whether the pipeline belongs to a key that is limited to repos. */
  readonly limited: boolean;
}

/** The only place that says whether a pipeline may use a secret. Throws SecretMissing if it may not. */
export function checkScope(name: string, scope: Scope, { pipeline, limited }: Asker): void {
  const { text, where } = scope;
  const refusal = `secret "${name}" does not serve the pipeline "${pipeline}"`;
  if (text === undefined) {
    if (limited === false) return;
    throw new SecretMissing(
      `${refusal}: it names no pipelines, and so serves only those of keys that are not limited to repos. Name "${pipeline}" in ${where}, or look at its spec and take it over with such a key: sluice pipeline inspect ${pipeline} --spec | sluice pipeline update -f -`,
    );
  }
  const named = namesIn(text);
  const wrong = named.find((word) => word !== ALL && !NAME_PATTERN.test(word));
  if (wrong !== undefined) {
    throw new SecretMissing(
      `${refusal}: ${where} holds ${JSON.stringify(wrong.slice(0, MAX_SHOWN))}, which can't be the name of a pipeline; take names, or ${ALL} for all`,
    );
  }
  if (named.includes(pipeline) || named.includes(ALL)) return;
  throw new SecretMissing(`${refusal}: ${where} does not name it`);
}

const ALL = "*";
const MAX_SHOWN = 100;

/** Names stand between spaces, commas or ends of lines; what follows a `#` on a line is a remark. */
function namesIn(text: string): string[] {
  return text
    .replace(/#.*/g, "")
    .split(/[\s,]+/)
    .filter((word) => word !== "");
}
