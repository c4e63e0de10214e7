import { type Invariant, inWorker } from "../mutant.ts";

/** A branch out of an archive is seen whole or not at all, and is the one that went into it. */
export const ARCHIVES: Invariant = {
  id: "10g",
  mutants: [
    {
      name: "An import is finished though some of it did not come",
      file: "worker/branch/calls/archives.ts",
      text: "if (lacks === undefined && row.seq === row.head) return { ok: true, row };",
      replacement: "if (row.seq === row.head) return { ok: true, row };",
      tests: [inWorker("branch/archives", "as much came")],
    },
    {
      name: "A page that is sent again is written twice",
      file: "worker/branch/calls/archives.ts",
      text: "        if (!isNext) return row;\n",
      replacement: "        void isNext;\n",
      tests: [inWorker("branch/archives", "as much came")],
    },
    {
      name: "Files lose when they were written again",
      file: "worker/branch/history/archives/import-rows.ts",
      text: "    more?.renewed ?? null,\n",
      replacement: "    null,\n",
      tests: [inWorker("branch/archives")],
    },
  ],
};

/** D1's copies can be made anew from the objects at any time, whichever of the two knows of a later time. */
export const COPIES: Invariant = {
  id: "10h",
  mutants: [
    {
      name: "The catalogue keeps branches of a later time than the objects",
      file: "worker/branch/work/outbox.ts",
      text: "  await catalogue.branches.setBack({ ...address, version });\n",
      replacement: "",
      tests: [inWorker("api/rebuild")],
    },
    {
      name: "The catalogue keeps settings of a later time than the objects",
      file: "worker/branch/work/outbox.ts",
      text: "  await catalogue.settings.setBack({ ...address, version, revision });\n",
      replacement: "  void revision;\n",
      tests: [inWorker("api/rebuild")],
    },
    {
      name: "The catalogue keeps tags of a later time than the objects",
      file: "worker/branch/work/outbox.ts",
      text: "  await catalogue.tags.setBack(address, ledger.tags.version);\n",
      replacement: "",
      tests: [inWorker("api/rebuild")],
    },
  ],
};

/** An import takes only what a branch could have written. */
export const IMPORTS: Invariant = {
  id: "10j",
  mutants: [
    {
      name: "Commits come that can't follow each other",
      file: "worker/branch/history/archives/import-rows.ts",
      text: "    if (fault) return badRow(`commits[${index}]`, fault);\n",
      replacement: "    void fault;\n",
      tests: [inWorker("branch/archives"), inWorker("api/import-fuzz")],
    },
    {
      name: "A file comes below another file",
      file: "worker/branch/history/archives/import-rows.ts",
      text: "  if (conflict) throw new UndoneError(conflict);\n",
      replacement: "  void conflict;\n",
      tests: [inWorker("branch/archives", "below another one")],
    },
    {
      name: "Rows come that the commits do not count",
      file: "worker/branch/history/archives/import-rows.ts",
      text: "  if (births - deaths === born.alive) return undefined;\n",
      replacement: "  if (births - deaths >= born.alive) return undefined;\n",
      tests: [inWorker("branch/archives", "fewer files")],
    },
  ],
};
