import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const LICENCE = /^(licen[cs]e|notice)/i;

/** The licences of the packages that a bundle is made of, one after the other. `inputs`: its files, as absolute paths. */
export function noticesOf(inputs: readonly string[]): string {
  const folders = new Set(inputs.flatMap((input) => packageFolder(input) ?? []));
  return [...folders].sort().map(noticeOf).join("\n\n");
}

/** `/…/node_modules/zod` of `/…/node_modules/zod/v4/core/api.js`; the innermost one if packages hold packages. */
function packageFolder(input: string): string | undefined {
  return /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(input)?.[0];
}

/** Some packages bring no text but only say its name. Throws if one does not even do that. */
function noticeOf(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  if (!license) throw new Error(`${name} is part of the bundled Worker and tells no licence`);
  const files = readdirSync(folder).filter((file) => LICENCE.test(file));
  const texts = files.sort().map((file) => readFileSync(join(folder, file), "utf8").trim());
  return [`${name} ${version} (${license})`, ...texts].join("\n\n");
}
