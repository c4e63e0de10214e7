import { type Invariant, inWorker, type TestRun } from "../mutant.ts";

const CACHE = "worker/branch/tree/read-cache.ts";
const READ = "worker/branch/read/file.ts";
const NEAR = "worker/near-files.ts";
const GET = "worker/s3/objects/get-object.ts";

/** Histories that mostly read by an entry that keeps rows, in the simulation. */
export const HISTORIES: TestRun = {
  project: "simulator",
  file: "test/simulator/near-files.test.ts",
  title: "in 60 histories",
};
const STAMPS = inWorker("branch/stamps");
const ENTRY = inWorker("s3/near-files");

/** What is answered by a row that is kept near the reader is what the branch would answer, or of a commit would have five seconds before. */
export const NEAR_FILES: Invariant = {
  id: "2b",
  mutants: [
    {
      name: "What another instance of the object answered counts as unchanged",
      file: CACHE,
      text: "  readonly #instance = crypto.randomUUID();\n",
      replacement: '  readonly #instance = "one";\n',
      tests: [STAMPS],
    },
    {
      name: "A transaction that may have changed anything leaves what is kept near readers unchanged",
      file: CACHE,
      text: "      this.#epoch++;\n      this.rowChanged();\n",
      replacement: "      this.#epoch++;\n",
      tests: [STAMPS, HISTORIES],
    },
    {
      name: "What was written again as it is keeps its time near readers",
      file: "worker/branch/tree/file-store.ts",
      text: "    this.#reads.rowChanged();\n",
      replacement: "",
      tests: [STAMPS],
    },
    {
      name: "A file that was replaced counts as unchanged",
      file: "worker/branch/tree/file-store.ts",
      text: " AND died IS +NULL AND born <= ${seq}`;",
      replacement: " AND died IS +NULL AND born <= ${seq + 1}`;",
      tests: [STAMPS, HISTORIES],
    },
    {
      name: "A file of an earlier life of a branch counts as unchanged",
      file: READ,
      text: "  return `${counter}:${gen}:`;\n",
      replacement: "  return `${counter}:${gen && 1}:`;\n",
      tests: [STAMPS],
    },
    {
      name: "What is read while a large commit is applied has a stamp",
      file: READ,
      text: "ledger.applying.get() === null ? stampOf(ledger, { gen, seq }) : undefined",
      replacement: "stampOf(ledger, { gen, seq })",
      tests: [STAMPS],
    },
    {
      name: "What a tag named counts as unchanged once it names another commit",
      file: READ,
      text: "stampedAt(ledger, { have, gen }) === seq)",
      replacement: "stampedAt(ledger, { have, gen }) !== undefined)",
      tests: [STAMPS, HISTORIES],
    },
    {
      name: "What a tag names is answered for five seconds without asking",
      file: READ,
      text: "isLasting: commit.id === view",
      replacement: "isLasting: commit.id !== null",
      tests: [STAMPS, ENTRY, HISTORIES],
    },
    {
      name: "The newest time is not told of what is unchanged",
      file: READ,
      text: 'modified === "branch" && { modifiedAt: record.modifiedAt }',
      replacement: 'modified === "file" && { modifiedAt: record.modifiedAt }',
      tests: [STAMPS, HISTORIES],
    },
    {
      name: "A file of a commit is answered without asking for longer than five seconds",
      file: NEAR,
      text: " || now.at - asked.at >= LASTING_MS",
      replacement: " || now.at - asked.at >= 60 * LASTING_MS",
      tests: [ENTRY, HISTORIES],
    },
    {
      name: "What was asked by a clock that was set back is young",
      file: NEAR,
      text: "now.clock !== asked.clock || ",
      replacement: "",
      tests: [ENTRY],
    },
    {
      name: "The newest state is answered without asking, however the branch is set",
      file: NEAR,
      text: " && near === true",
      replacement: "",
      tests: [ENTRY, HISTORIES],
    },
    {
      name: "Near reads go back to what was so before a commit that was seen",
      file: NEAR,
      text: " && at?.gen === known.newest?.gen && at?.seq === known.newest?.seq;",
      replacement: ";",
      tests: [ENTRY, HISTORIES],
    },
    {
      name: "Near reads answer by what was read before it was forgotten what was seen",
      file: NEAR,
      text: "seen === known && ",
      replacement: "",
      tests: [ENTRY],
    },
    {
      name: "A condition is held against what was so seconds ago",
      file: NEAR,
      text: " && mayBeOld",
      replacement: "",
      tests: [ENTRY],
    },
    {
      name: "Where nothing is, nobody has seen anything",
      file: READ,
      text: "{ ...answer, ...(answer.ok && stamped), ...at }",
      replacement: "{ ...answer, ...(answer.ok && { ...stamped, ...at }) }",
      tests: [STAMPS],
    },
    {
      name: "What a commit has counts as asked for when the answer came",
      file: NEAR,
      text: "{ ...kept, file, asked, seen }",
      replacement: "{ ...kept, file, asked: this.#moment(now()), seen }",
      tests: [ENTRY],
    },
    {
      name: "A refusal leaves the file that was there before",
      file: NEAR,
      text: "    else this.#kept.delete(key);\n",
      replacement: "",
      tests: [ENTRY],
    },
    {
      name: "A refusal is kept as if it were a file of a commit",
      file: NEAR,
      text: "answer.ok && answer.stamp !== undefined ? answer : undefined;",
      replacement:
        '(answer.ok ? answer : { ...answer, lasting: true, attributes: {}, body: { kind: "chunks" } }) as FileRead;',
      tests: [ENTRY, HISTORIES],
    },
    {
      name: "A file is found under the time that somebody else asked for",
      file: NEAR,
      text: "[bucket, path, commit, modified]",
      replacement: "[bucket, path, commit]",
      tests: [ENTRY],
    },
    {
      name: "Whoever has no key is answered by what is kept of a commit",
      file: GET,
      text: '  if (caller.keyId === "") return undefined;\n',
      replacement: "  void caller;\n",
      tests: [ENTRY, HISTORIES],
    },
    {
      name: "Bytes that were opened early are given though the file is another one",
      file: GET,
      text: "isSameBody(now.body, file.body) && ",
      replacement: "now.ok && ",
      tests: [ENTRY],
    },
  ],
};
