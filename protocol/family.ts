/**
 * The word of the family that tables are of. An object writes it when it makes its tables, D1's first migration does, each into
 * a table `family`. Within a family every release works on the tables of every other. Tables without the word are of code from
 * before the first release: they are neither read nor written, so that the code that wrote them still can.
 */
export const FAMILY = "sluice-1";

/** What is wrong with tables that are not of the family. Errors lose their class between objects, so that these words tell. */
export const OTHER_FAMILY_CAUSE = `These data are not of the family '${FAMILY}': code from before the first release, or of another family, wrote them. They were left as they are.`;

/** What to do about it. */
export const OTHER_FAMILY_FIX =
  "Begin with an empty place, and carry over with the code that wrote them: repos ('sluice repo export', then 'repo import'), access keys ('sluice key export', then 'key import'), specifications of pipelines ('sluice pipeline inspect', then 'pipeline create'), and the secrets of the deployment and of runners. What can't be carried over: jobs with their results and logs, open commits, unfinished uploads, and commits that only a fork or a pipeline keeps.";

export const OTHER_FAMILY = `${OTHER_FAMILY_CAUSE} ${OTHER_FAMILY_FIX}`;

/** Tables that are not ours: those of the platform and of its emulator, and the books that it keeps of migrations. */
const NOT_OURS = /^(sqlite_|_cf_|__miniflare_|d1_migrations$)/;

/** Whose tables a database has, by their names and the word in `family`: none of ours, ours, or another family's. */
export function familyOf(
  tables: readonly string[],
  word: () => string | undefined,
): "none" | "ours" | "other" {
  const ours = tables.filter((name) => !NOT_OURS.test(name));
  if (ours.length === 0) return "none";
  return ours.includes("family") && word() === FAMILY ? "ours" : "other";
}
