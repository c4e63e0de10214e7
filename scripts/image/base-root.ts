import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { Distribution } from "./distribution.ts";
import { runTool } from "./run-tool.ts";

const RECIPES = join(import.meta.dirname, "../../deploy/image");

/** Where the programs of packages are, whether these were made before or after /bin became a link. */
const MERGED = ["bin", "lib", "lib64", "sbin"];
/** Mount points of engines: without them a container with a read-only root would not start. */
const MOUNT_POINTS = [
  "dev",
  "proc",
  "sys",
  "run",
  "etc/ssl/certs",
  "var/lib/dpkg/status.d",
  "work",
  "usr/local/bin",
  "opt/sluice",
  "opt/node",
];
const EMPTY = ["etc/hosts", "etc/hostname", "etc/resolv.conf"];
/** Whoever the container runs as may write there. */
const ANYBODYS = ["tmp", "var/tmp", "srv/sluice"];
/** Nobody reads these in a container. Copyrights stay, in usr/share/doc. */
const DROPPED = [
  ...[
    "usr/share/man",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/bash-completion",
    "usr/share/zsh",
    "usr/share/gcc",
  ],
  ...[
    "usr/share/info",
    "usr/share/initramfs-tools",
    "usr/share/gdb",
    "etc/init.d",
    "etc/systemd",
    "usr/lib/systemd",
    "var/cache",
    "usr/sbin",
  ],
  // Conversions of old character sets, and a second tini.
  ...["usr/lib/x86_64-linux-gnu/gconv", "usr/lib/aarch64-linux-gnu/gconv", "usr/bin/tini-static"],
];

/** What busybox is in the image: what a person looks around with, and what short commands of pipelines need. */
const TOOLS = [
  ...[
    "sh",
    "ash",
    "[",
    "test",
    "true",
    "false",
    "echo",
    "printf",
    "env",
    "expr",
    "seq",
    "sleep",
    "date",
    "timeout",
    "xargs",
  ],
  ...[
    "cat",
    "cp",
    "mv",
    "rm",
    "ln",
    "ls",
    "mkdir",
    "rmdir",
    "mktemp",
    "touch",
    "stat",
    "readlink",
    "realpath",
    "basename",
    "dirname",
  ],
  ...[
    "chmod",
    "chown",
    "find",
    "du",
    "df",
    "dd",
    "head",
    "tail",
    "sort",
    "uniq",
    "wc",
    "cut",
    "paste",
    "tr",
    "tee",
    "tac",
    "split",
  ],
  ...[
    "grep",
    "sed",
    "awk",
    "diff",
    "cmp",
    "od",
    "hexdump",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "tar",
    "gzip",
    "gunzip",
    "zcat",
    "unzip",
  ],
  ...[
    "ps",
    "kill",
    "id",
    "whoami",
    "hostname",
    "uname",
    "nproc",
    "which",
    "wget",
    "nc",
    "vi",
    "setsid",
    "mkfifo",
  ],
];

/** The root of the image without Node, workerd and Sluice. */
export async function makeBaseRoot(
  root: string,
  { debs, distribution }: { readonly debs: readonly string[]; readonly distribution: Distribution },
): Promise<void> {
  for (const folder of MERGED) {
    mkdirSync(join(root, "usr", folder), { recursive: true });
    symlinkSync(`usr/${folder}`, join(root, folder));
  }
  for (const folder of [...MOUNT_POINTS, ...ANYBODYS]) mkdirSync(join(root, folder), { recursive: true });
  for (const deb of debs) await unpack(deb, root);
  const mozilla = join(root, "usr/share/ca-certificates/mozilla");
  const certificates = readdirSync(mozilla)
    .sort()
    .map((name) => readFileSync(join(mozilla, name), "utf8").trim());
  put(root, "etc/ssl/certs/ca-certificates.crt", `${certificates.join("\n")}\n`);
  rmSync(join(root, "usr/share/ca-certificates"), { recursive: true });
  dropDocumentation(root);
  for (const folder of DROPPED) rmSync(join(root, folder), { recursive: true, force: true });
  mkdirSync(join(root, "usr/sbin"), { recursive: true });
  for (const tool of TOOLS) symlinkSync("busybox", join(root, "usr/bin", tool));
  putEtc(root, distribution);
  // The commands of a container find its gateway and key as those of a machine do, in `.sluice`.
  symlinkSync("/srv/sluice", join(root, "work/.sluice"));
  copyFileSync(join(RECIPES, "healthcheck.sh"), join(root, "usr/local/bin/sluice-healthcheck"));
  chmodSync(join(root, "usr/local/bin/sluice-healthcheck"), 0o755);
  settleModes(root);
  for (const folder of ANYBODYS) chmodSync(join(root, folder), 0o1777);
}

/** Whatever the umask of this machine is. */
function settleModes(root: string): void {
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    if (entry.isSymbolicLink()) continue;
    const path = join(entry.parentPath, entry.name);
    const runs = entry.isDirectory() || (statSync(path).mode & 0o111) !== 0;
    chmodSync(path, runs ? 0o755 : 0o644);
  }
}

/** Its files, and what says to scanners which package they are of. */
async function unpack(deb: string, root: string): Promise<void> {
  const script = 'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink --no-same-owner -p';
  await runTool("bash", ["-o", "pipefail", "-c", script, "unpack", deb, root]);
  const control = await runTool("dpkg-deb", ["--field", deb]);
  const name = /^Package: (\S+)$/m.exec(control)?.[1] ?? deb;
  const [first, ...rest] = control.split("\n");
  put(root, `var/lib/dpkg/status.d/${name}`, [first, "Status: install ok installed", ...rest].join("\n"));
}

function dropDocumentation(root: string): void {
  const folder = join(root, "usr/share/doc");
  for (const name of readdirSync(folder)) {
    const of = join(folder, name);
    for (const file of readdirSync(of)) if (file !== "copyright") rmSync(join(of, file), { recursive: true });
  }
}

function putEtc(root: string, { id, title, version, codename }: Distribution): void {
  for (const file of EMPTY) put(root, file, "");
  put(root, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\nsluice:x:1000:1000:sluice:/work:/bin/sh\n");
  put(root, "etc/group", "root:x:0:\nsluice:x:1000:\n");
  put(root, "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
  const release = {
    PRETTY_NAME: `Sluice on ${title}`,
    ID: id,
    VERSION_ID: version,
    VERSION_CODENAME: codename,
  };
  put(
    root,
    "etc/os-release",
    Object.entries(release)
      .map(([name, value]) => `${name}="${value}"\n`)
      .join(""),
  );
}

function put(root: string, path: string, text: string): void {
  writeFileSync(join(root, path), text);
}
