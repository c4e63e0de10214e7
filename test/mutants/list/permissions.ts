import { type Invariant, inNode, inWorker } from "../mutant.ts";

/** No request reads or writes outside its key's scope. */
export const SCOPES: Invariant = {
  id: "8",
  mutants: [
    {
      name: "A key for some repos does what belongs to no repo",
      file: "worker/core/permissions.ts",
      text: 'return repo === null ? permission === "list" : scope.repos.includes(repo);',
      replacement: "return repo === null || scope.repos.includes(repo);",
      tests: [inWorker("core/permissions")],
    },
    {
      name: "A key for some repos makes code run there without the right for it",
      file: "worker/core/permissions.ts",
      text: 'return allows(scope, "run") && (scope.repos === null || scope.pipelines === true);',
      replacement: 'return allows(scope, "run");',
      tests: [inWorker("core/permissions")],
    },
    {
      name: "A grant serves every key, also one that is stolen with another key",
      file: "worker/keys/grants.ts",
      text: 'if (known.keyId !== keyId) return no("of-another-key");',
      replacement: "",
      tests: [inWorker("keys/grants")],
    },
    {
      name: "A grant that was verified once never ends",
      file: "worker/keys/grants.ts",
      text: 'return known.until > now ? { ok: true, grant: known.grant } : no("expired");',
      replacement:
        'return remembered || known.until > now ? { ok: true, grant: known.grant } : no("expired");',
      tests: [inWorker("keys/grants")],
    },
    {
      name: "A runner's key reads and uploads whatever it likes with the grant of any lease",
      file: "worker/api/request/admit.ts",
      text: "if (await granted(grantOf(asked), asked)) return;",
      replacement: "if (grantOf(asked)) return;",
      tests: [inWorker("api/grants")],
    },
    {
      name: "A key for some repos finds jobs of all pipelines",
      file: "worker/api/jobs.ts",
      text: "const wanted = { ...query, states, pipelines: caller.scope.repos ?? undefined, limit: limit + 1 };",
      replacement: "const wanted = { ...query, states, limit: limit + 1 };",
      tests: [inWorker("api/jobs", "search=")],
    },
    {
      name: "An S3 operation looks at the level of a key and not at its repos",
      file: "worker/s3/gateway.ts",
      text: "if (!permits(asked.caller.scope, need)) {",
      replacement: "if (!permits({ ...asked.caller.scope, repos: null }, need)) {",
      tests: [inWorker("s3/every-operation")],
    },
    {
      name: "Of a route that needs several things in several repos, only the first is looked at",
      file: "worker/api/request/admit.ts",
      text: "  for (const { permission, of } of needs) {",
      replacement: "  for (const { permission, of } of needs.slice(0, 1)) {",
      tests: [inWorker("api/permissions")],
    },
  ],
};

/** A secret reaches a pipeline only if its scope says so. */
export const SECRETS: Invariant = {
  id: "8a",
  mutants: [
    {
      name: "A secret that names no pipeline serves those of limited keys",
      file: "runner/secrets/scope.ts",
      text: "    if (limited === false) return;\n",
      replacement: "    if (limited !== undefined) return;\n",
      tests: [inNode("runner/secret-sources")],
    },
    {
      name: "A secret serves every pipeline whose name begins with one that it names",
      file: "runner/secrets/scope.ts",
      text: "if (named.includes(pipeline) || named.includes(ALL)) return;",
      replacement: "if (named.some((word) => pipeline.startsWith(word)) || named.includes(ALL)) return;",
      tests: [inNode("runner/secret-sources")],
    },
    {
      name: "A pipeline whose submitter is not known counts as that of an unlimited key",
      file: "worker/pipeline/work/saga/create.ts",
      text: "{ spec, limited = true, ...came }: Creation,",
      replacement: "{ spec, limited = false, ...came }: Creation,",
      tests: [inWorker("pipeline/owners")],
    },
    {
      name: "Whoever submits a specification again does not take it over",
      file: "worker/pipeline/work/saga/update.ts",
      text: '    ledger.pipeline.resubmit({ limited, by });\n    return "unchanged";',
      replacement: '    return "unchanged";',
      tests: [inWorker("pipeline/owners")],
    },
    {
      name: "A new version belongs to the key of the version before",
      file: "worker/pipeline/work/saga/update.ts",
      text: "{ ...nextVersion(definition, { ...request, change }), starts, limited };",
      replacement:
        "{ ...nextVersion(definition, { ...request, change }), starts, limited: definition.limited };",
      tests: [inWorker("pipeline/owners")],
    },
  ],
};

/** Without a signature, a request reads only what a public branch holds. */
export const PUBLIC: Invariant = {
  id: "8b",
  mutants: [
    {
      name: "A read without a signature is not refused by the branch that ceased to be public",
      file: "worker/s3/bucket-tree.ts",
      text: "    read: (request) => tree.read({ ...request, publicOnly: true }),\n",
      replacement: "    read: (request) => tree.read(request),\n",
      tests: [inWorker("s3/public/switch")],
    },
    {
      name: "A listing without a signature is not refused by the branch that ceased to be public",
      file: "worker/s3/bucket-tree.ts",
      text: "    list: (request) => tree.list({ ...request, publicOnly: true }),\n",
      replacement: "    list: (request) => tree.list(request),\n",
      tests: [inWorker("s3/public/public", "holds at once")],
    },
    {
      name: "A branch is asked for everybody who makes up its name",
      file: "worker/s3/auth/unsigned.ts",
      text: "  if (!isPublic) throw notSigned();\n",
      replacement: "  void isPublic;\n",
      tests: [inWorker("s3/public/public")],
    },
    {
      name: "A branch that was made again under its name is as public as the one before",
      file: "worker/catalogue/branch-settings.ts",
      text: "WHERE (s.public = 1 OR s.cors = 1) AND b.version = s.version AND b.deleted = 0\n      ORDER BY",
      replacement: "WHERE (s.public = 1 OR s.cors = 1) AND b.deleted = 0\n      ORDER BY",
      tests: [inWorker("branch/settings", "do not count")],
    },
    {
      name: "The gateway that closed a branch goes on with what it remembers of it",
      file: "worker/keys/open-branches.ts",
      text: "    this.#memory = new Memory();\n",
      replacement: "",
      tests: [inWorker("keys/open-branches")],
    },
  ],
};

/** A protected branch is written by whom it is protected for. */
export const PROTECTED: Invariant = {
  id: "8c",
  mutants: [
    {
      name: "A branch that is protected for one key takes writes of any",
      file: "worker/branch/settings/settings.ts",
      text: '("key" in writer && writer.key === key)',
      replacement: '("key" in writer && key !== undefined)',
      tests: [inWorker("branch/protection")],
    },
    {
      name: "What was begun before a branch was protected is finished by its beginner",
      file: "worker/branch/write/finish.ts",
      text: "writableBranch(tx, ledger, { operations, of, key: ended?.key });",
      replacement:
        "writableBranch(tx, ledger, { operations, of, key: openCommit.annotation?.key ?? ended?.key });",
      tests: [inWorker("branch/protection")],
    },
    {
      name: "Versions are erased in a branch that is protected for somebody else",
      file: "worker/branch/erasures/erase.ts",
      text: "  if (refusal) return refusal;\n  const { gen } = found.generation;",
      replacement: "  void refusal;\n  const { gen } = found.generation;",
      tests: [inWorker("branch/protection")],
    },
    {
      name: "A branch that is protected for somebody else is deleted",
      file: "worker/branch/calls/lifecycle.ts",
      text: "(protectionRefusal(tx, ledger, { gen: live.gen, key }) ??\n        notEmptyRefusal(",
      replacement: "(\n        notEmptyRefusal(",
      tests: [inWorker("branch/protection")],
    },
    {
      name: "A rule that deletes is put on a branch that is protected for somebody else",
      file: "worker/branch/settings/settings.ts",
      text: "const refusal = protectionRefusal(tx, ledger, { gen, key: change.lifecycle.key });\n    if (refusal)",
      replacement:
        "const refusal = protectionRefusal(tx, ledger, { gen, key: change.lifecycle.key });\n    if (refusal && gen < 0)",
      tests: [inWorker("branch/protection")],
    },
  ],
};

/** A lifecycle rule deletes nothing that somebody wrote since it was due. */
export const RULES: Invariant = {
  id: "8d",
  mutants: [
    {
      name: "A rule deletes what somebody replaced since it was found",
      file: "worker/branch/work/lifecycle-scan/expire.ts",
      text: "AND there.died IS +NULL AND there.born = staged.precondition",
      replacement: "AND there.died IS +NULL",
      tests: [inWorker("branch/lifecycle-rules", "writ")],
    },
    {
      name: "A rule deletes what somebody put again as it was since it was found",
      file: "worker/branch/work/lifecycle-scan/expire.ts",
      text: "\n      AND ifnull(there.renewed, 0) < ?5\n",
      replacement: "\n      AND there.born < ?5\n",
      tests: [inWorker("branch/lifecycle-rules", "writ")],
    },
    {
      name: "A rule deletes what has one of its tags",
      file: "worker/branch/work/lifecycle-scan/expire.ts",
      text: "return asked.every(([key, value]) => tags.get(key) === value);",
      replacement: "return asked.length === 0 || asked.some(([key, value]) => tags.get(key) === value);",
      tests: [inWorker("branch/lifecycle-rules", "tag")],
    },
    {
      name: "What a rule has found is deleted although the rule was changed",
      file: "worker/branch/settings/lifecycle-scans.ts",
      text: "    stopScan(tx, ledger, { scan, now });\n",
      replacement: "",
      tests: [inWorker("branch/lifecycle-rules", "if the rule goes")],
    },
    {
      name: "A large deletion of a rule is written without another look at what it deletes",
      file: "worker/branch/work/large-commit/check.ts",
      text: "      : leaveOut(tx, ledger, { applying, cutoff, progress });",
      replacement: '      : "hold";',
      tests: [inWorker("branch/lifecycle-rules", "more files than one transaction")],
    },
  ],
};
