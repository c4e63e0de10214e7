import { type Invariant, inNode } from "../mutant.ts";

/** A late write of egress undoes nothing newer, in a store that keeps conditions. */
export const EGRESS: Invariant = {
  id: "11",
  mutants: [
    {
      name: "A runner writes to a store without asking whether it still has the lease",
      file: "runner/tasks/push-entries.ts",
      text: "    await deps.confirmLease(task.lease, signal);\n",
      replacement: "",
      tests: [inNode("runner/tasks/egress-stores", "late")],
    },
    {
      name: "A runner that was outrun writes again on what it saw before",
      file: "runner/tasks/push-entries.ts",
      text: "      this.#seen.delete(entry.path);\n",
      replacement: "      this.#seen.set(entry.path, seen);\n",
      tests: [inNode("runner/tasks/egress-stores", "late")],
    },
    {
      name: "A runner that looks again does not ask whether it still has the lease",
      file: "runner/tasks/push-entries.ts",
      text: "    await this.#options.confirmLease(this.#options.task.lease, signal);\n",
      replacement: "",
      tests: [inNode("runner/tasks/egress-stores", "late")],
    },
    {
      name: "A late write makes an object in S3 that somebody else has made meanwhile",
      file: "runner/tasks/stores/s3.ts",
      text: 'return version === null ? { IfNoneMatch: "*" } : { IfMatch: version };',
      replacement: "return version === null ? {} : { IfMatch: version };",
      tests: [inNode("runner/tasks/egress-stores", "late")],
    },
    {
      name: "A late removal in S3 takes what somebody else has put meanwhile",
      file: "runner/tasks/stores/s3.ts",
      text: "...(takesConditions && { IfMatch: version }) };",
      replacement: "};",
      tests: [inNode("runner/tasks/egress-stores", "late")],
    },
  ],
};

/** A command that runs as a process sees no key of its machine, changes no setting of its kernel and opens no disk of it. */
export const BORDERS: Invariant = {
  id: "12",
  mutants: [
    {
      name: "A command changes settings of the kernel",
      file: "runner/executors/process/bubblewrap.ts",
      text: '    ...settings.flatMap((path) => ["--ro-bind-try", path, path]),\n',
      replacement: "    ...settings.slice(0, 0),\n",
      tests: [inNode("runner/conformance/borders", "bubblewrap")],
    },
    {
      name: "A command writes to /sys",
      file: "runner/executors/process/bubblewrap.ts",
      text: 'name === "sys" ? "--ro-bind-try" : "--bind-try"',
      replacement: 'name === "sys/fs" ? "--ro-bind-try" : "--bind-try"',
      tests: [inNode("runner/conformance/borders", "bubblewrap")],
    },
    {
      name: "A command reads the keys of its machine",
      file: "runner/executors/process/process.ts",
      text: "const found = await findHidden(jail.hidden);",
      replacement: "const found = await findHidden(jail.hidden.slice(0, 0));",
      tests: [inNode("runner/conformance/borders", "bubblewrap")],
    },
    {
      name: "A command that runs as root keeps all that root may do",
      file: "runner/executors/process/bubblewrap.ts",
      text: '["--cap-drop", "ALL", ...ROOT_CAPABILITIES.flatMap(kept)]',
      replacement: "ROOT_CAPABILITIES.flatMap(kept)",
      tests: [inNode("runner/conformance/borders", "bubblewrap")],
    },
    {
      name: "A command without bubblewrap opens disks of its machine",
      file: "runner/executors/process/unshare.ts",
      text: "    ...closeDevices(script),\n    ...(await",
      replacement: "    ...(await",
      tests: [inNode("runner/conformance/devices", "unshare")],
    },
  ],
};

/** Nothing that a gateway sends becomes a path outside of the folder that a person named. */
export const PLACES: Invariant = {
  id: "12a",
  mutants: [
    {
      name: "A listed name is cut at the length of a prefix that it does not have",
      file: "cli/gateway/objects.ts",
      text: "if (fault === undefined && path.startsWith(prefix)) return;",
      replacement: "if (fault === undefined) return;",
      tests: [inNode("cli/hostile-gateway", "names which lead out")],
    },
    {
      name: "A listed name goes up to the folders above",
      file: "cli/gateway/objects.ts",
      text: "if (fault === undefined && path.startsWith(prefix)) return;\n  throw",
      replacement: "if (path.startsWith(prefix)) return;\n  throw",
      tests: [inNode("cli/hostile-gateway", "names which lead out")],
    },
    {
      name: "A download goes through a folder that another user laid as a link",
      file: "cli/files/placing.ts",
      text: "else if (found.isSymbolicLink() && (await isLaid(found, folder))) {",
      replacement: "else if (found.isSymbolicLink() && (await isLaid(found, inner))) {",
      tests: [inNode("cli/hostile-gateway", "link")],
    },
    {
      name: "Bytes go into the pipe of another user",
      file: "cli/files/placing.ts",
      text: "  if (await isLaid(found, dirname(path))) return false;\n",
      replacement: "",
      tests: [inNode("cli/hostile-gateway", "pipe")],
    },
  ],
};
