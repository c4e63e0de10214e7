import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { PassThrough, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Architecture } from "./distribution.ts";
import { ImageError } from "./run-tool.ts";

export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** What a layer is made of. */
export interface LayerFiles {
  readonly from: string;
  /** Below `from`: files, links, and the folders that they are in, or engines would choose who may write to those. */
  readonly paths: readonly string[];
  /** The folder that they come to in the image, without a leading slash. */
  readonly to: string;
  /** Who may do what with them. `settled`: anybody may read them and root alone may change them, whatever this machine's umask is. */
  readonly modes: "settled" | "kept";
  /** What is in it, for `docker history`. */
  readonly about: string;
}

export interface Layer extends Descriptor {
  /** What is in it, for `docker history`. */
  readonly about: string;
}

/** An image of one architecture, as the layout has it. */
export interface Image {
  readonly arch: Architecture;
  readonly manifest: Descriptor;
  readonly config: Descriptor;
  readonly layers: readonly Layer[];
}

const MEDIA = "application/vnd.oci.image";

/**
 * A folder in the form of the OCI's image layout. Layers are not compressed: a registry's client does that on the way, and
 * an engine on this machine would only unpack them again.
 */
export class OciLayout {
  readonly folder: string;

  /** What a layout of before had in the folder goes. Throws an ImageError if it holds anything else. */
  constructor(folder: string) {
    this.folder = folder;
    if (existsSync(folder) && readdirSync(folder).length > 0 && !existsSync(join(folder, "oci-layout"))) {
      throw new ImageError(
        `${folder} holds something else than a layout: name another folder, or an empty one`,
      );
    }
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(join(folder, "blobs/sha256"), { recursive: true });
    this.#put("oci-layout", { imageLayoutVersion: "1.0.0" });
  }

  /**
   * Files as a layer: root's, of no time, in the order of names, so that the same files are the same layer.
   */
  async addLayer({ from, paths, to, modes, about }: LayerFiles): Promise<Layer> {
    const incoming = join(this.folder, "incoming");
    const look = ["--format=gnu", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"];
    if (modes === "settled") look.push("--mode=u+rwX,go+rX,go-w");
    const which = [
      "--no-recursion",
      "--null",
      "--verbatim-files-from",
      "--files-from=-",
      `--transform=s,^,${to}/,Sr`,
    ];
    const tar = spawn("tar", [...look, "-C", from, ...which, "-c"], { stdio: ["pipe", "pipe", "inherit"] });
    const hash = createHash("sha256");
    const hashed = new PassThrough().on("data", (chunk: Buffer) => hash.update(chunk));
    const ended = once(tar, "exit");
    tar.stdin.end(paths.toSorted().join("\0"));
    await pipeline(tar.stdout, hashed, createWriteStream(incoming));
    const [code] = await ended;
    if (code !== 0) throw new ImageError(`tar ended with ${code}`);
    const digest = `sha256:${hash.digest("hex")}`;
    const { size } = statSync(incoming);
    renameSync(incoming, join(this.folder, blobPath(digest)));
    return { mediaType: `${MEDIA}.layer.v1.tar`, digest, size, about };
  }

  /** `config` is what runs in it, as both engines and the OCI know it; `created` as RFC 3339. */
  addImage(options: {
    readonly arch: Architecture;
    readonly layers: readonly Layer[];
    readonly config: object;
    readonly created: string;
  }): Image {
    const { arch, layers, created } = options;
    const config = this.#addJson(`${MEDIA}.config.v1+json`, {
      ...{ created, architecture: arch, ...(arch === "arm64" && { variant: "v8" }), os: "linux" },
      config: options.config,
      rootfs: { type: "layers", diff_ids: layers.map(({ digest }) => digest) },
      history: layers.map(({ about }) => ({ created, created_by: about })),
    });
    const manifest = this.#addJson(`${MEDIA}.manifest.v1+json`, {
      ...{ schemaVersion: 2, mediaType: `${MEDIA}.manifest.v1+json`, config },
      layers: layers.map(({ mediaType, digest, size }) => ({ mediaType, digest, size })),
    });
    return { arch, manifest, config, layers };
  }

  /** Makes the images one, of several architectures, under a name. */
  finish(images: readonly Image[], name: string): void {
    const mediaType = `${MEDIA}.index.v1+json`;
    const manifests = images.map(({ arch, manifest }) => ({
      ...manifest,
      platform: { architecture: arch, os: "linux", ...(arch === "arm64" && { variant: "v8" }) },
    }));
    const index = this.#addJson(mediaType, { schemaVersion: 2, mediaType, manifests });
    const annotations = { "org.opencontainers.image.ref.name": name };
    this.#put("index.json", { schemaVersion: 2, mediaType, manifests: [{ ...index, annotations }] });
  }

  /**
   * An image as `docker save` writes it, which both engines load. Not as the OCI's archive: Podman would leave out the
   * health check, which the OCI has no word for.
   */
  archive({ config, layers }: Image, { names }: { readonly names: readonly string[] }): Readable {
    const paths = [config, ...layers].map(({ digest }) => blobPath(digest));
    const [Config, ...Layers] = paths;
    this.#put("manifest.json", [{ Config, RepoTags: names, Layers }]);
    const args = ["-C", this.folder, "-c", "manifest.json", ...new Set(paths)];
    const tar = spawn("tar", args, { stdio: ["ignore", "pipe", "inherit"] });
    tar.on("close", () => rmSync(join(this.folder, "manifest.json"), { force: true }));
    return tar.stdout;
  }

  #addJson(mediaType: string, value: object): Descriptor {
    const bytes = Buffer.from(JSON.stringify(value));
    const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
    writeFileSync(join(this.folder, blobPath(digest)), bytes);
    return { mediaType, digest, size: bytes.length };
  }

  #put(path: string, value: object): void {
    writeFileSync(join(this.folder, path), JSON.stringify(value));
  }
}

/** Where a layout has a blob. */
function blobPath(digest: string): string {
  return `blobs/${digest.replace(":", "/")}`;
}
