import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { removeScratch, scratchFolder } from "./scratch.ts";

/** What tests need images for; each but "base" is made of nothing but a static busybox. */
export type TestImage =
  /** Everything that busybox has, for root. */
  | "busybox"
  /** The same, for a user whom the node does not know. */
  | "user"
  /** A few programs, and no shell. */
  | "bare"
  /** Busybox, with an entry point that fails, variables and a working directory. */
  | "settings"
  /** Busybox with a folder `/pfs` that holds files. */
  | "pfs"
  /** What Sluice's own image is built on: beside busybox this machine's bubblewrap, tini, certificates and libraries. */
  | "base";

/** The user of the image "user". */
export const IMAGE_USER = 1234;

interface Recipe {
  readonly fill: (root: string) => void;
  /** As lines of a Dockerfile. */
  readonly changes: readonly string[];
}

const PATH_CHANGE = "ENV PATH=/bin";

const RECIPES: Record<TestImage, Recipe> = {
  busybox: { fill: allTools, changes: [PATH_CHANGE] },
  user: { fill: allTools, changes: [PATH_CHANGE, `USER ${IMAGE_USER}:${IMAGE_USER}`] },
  bare: { fill: fewTools, changes: [PATH_CHANGE] },
  settings: {
    fill: allTools,
    changes: [
      PATH_CHANGE,
      "ENV FROM_IMAGE=image",
      "ENV FROM_BOTH=image",
      'ENTRYPOINT ["/bin/false"]',
      'CMD ["/bin/false"]',
      "WORKDIR /tmp",
    ],
  },
  pfs: {
    fill(root) {
      allTools(root);
      mkdirSync(join(root, "pfs/out"), { recursive: true });
      writeFileSync(join(root, "pfs/out/of-the-image"), "hidden");
      writeFileSync(join(root, "pfs/of-the-image"), "hidden");
    },
    changes: [PATH_CHANGE],
  },
  base: { fill: allOfBase, changes: [] },
};

const BUSYBOXES = ["/bin/busybox", "/usr/bin/busybox", "/bin/busybox-static", "/usr/bin/busybox-static"];

/** Whether there is a static busybox to make images of. */
export function hasBusybox(): boolean {
  return findBusybox() !== undefined;
}

/** The image as a tar archive, and what an import is to change of it. */
export function imageTar(image: TestImage): { tar: Buffer; changes: readonly string[] } {
  const { fill, changes } = RECIPES[image];
  const root = scratchFolder();
  for (const folder of ["bin", "etc", "dev", "proc", "sys"]) mkdirSync(join(root, folder));
  mkdirSync(join(root, "tmp"));
  chmodSync(join(root, "tmp"), 0o1777);
  chmodSync(root, 0o755);
  writeFileSync(join(root, "etc/passwd"), "root:x:0:0::/:/bin/sh\n");
  fill(root);
  const owner = ["--owner=0", "--group=0", "--numeric-owner"];
  const tar = execFileSync("tar", ["-C", root, ...owner, "-c", "."], { maxBuffer: 64 * 1024 * 1024 });
  removeScratch(root);
  return { tar, changes };
}

function allTools(root: string): void {
  copyFileSync(busybox(), join(root, "bin/busybox"));
  const tools = execFileSync(busybox(), ["--list"], { encoding: "utf8" }).split("\n");
  // A link of its own name would replace it.
  for (const tool of tools.filter((name) => name !== "" && name !== "busybox")) {
    symlinkSync("busybox", join(root, "bin", tool));
  }
}

/** In the places of Debian's: what is in /bin is in /usr/bin. */
function allOfBase(root: string): void {
  allTools(root);
  mkdirSync(join(root, "usr/lib"), { recursive: true });
  renameSync(join(root, "bin"), join(root, "usr/bin"));
  for (const [link, target] of [
    ["bin", "usr/bin"],
    ["lib", "usr/lib"],
    ["lib64", "usr/lib"],
  ] as const)
    symlinkSync(target, join(root, link));
  const programs = ["bwrap", "tini"].map((name) =>
    execFileSync("which", [name], { encoding: "utf8" }).trim(),
  );
  for (const program of programs) copyFileSync(program, join(root, "usr/bin", basename(program)));
  // Node is linked to all that workerd is.
  const linked = execFileSync("ldd", [...programs, process.execPath], { encoding: "utf8" });
  for (const [path] of linked.matchAll(/(?<=[\s])\/\S*\.so\S*(?= \()/g)) {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    copyFileSync(path, join(root, path));
  }
  mkdirSync(join(root, "etc/ssl/certs"), { recursive: true });
  copyFileSync("/etc/ssl/certs/ca-certificates.crt", join(root, "etc/ssl/certs/ca-certificates.crt"));
}

/** Busybox does what it is called. */
function fewTools(root: string): void {
  for (const tool of ["cat", "cp", "echo", "head", "pwd", "sleep", "true"]) {
    copyFileSync(busybox(), join(root, "bin", tool));
  }
}

function busybox(): string {
  const found = findBusybox();
  if (found === undefined) throw new Error("there is no static busybox here");
  return found;
}

function findBusybox(): string | undefined {
  return BUSYBOXES.find((path) => existsSync(path) && isStatic(path));
}

const PROGRAM_INTERPRETER = 3;

/** A 64-bit ELF program without an interpreter needs nothing but itself. */
function isStatic(path: string): boolean {
  const bytes = readFileSync(path);
  if (bytes.readUInt32BE(0) !== 0x7f454c46 || bytes[4] !== 2) return false;
  const [at, size, count] = [
    Number(bytes.readBigUInt64LE(32)),
    bytes.readUInt16LE(54),
    bytes.readUInt16LE(56),
  ];
  const kinds = Array.from({ length: count }, (_, index) => bytes.readUInt32LE(at + index * size));
  return !kinds.includes(PROGRAM_INTERPRETER);
}
