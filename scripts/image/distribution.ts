import { ImageError } from "./run-tool.ts";

/** The architectures of images, as engines and Debian call them. */
export type Architecture = "amd64" | "arm64";

/** A system whose packages an image is made of. */
export interface Distribution {
  readonly id: "debian" | "ubuntu";
  /** Such as `bookworm`. */
  readonly codename: string;
  /** Such as `Debian GNU/Linux 12 (bookworm)`. */
  readonly title: string;
  /** Such as `12`. */
  readonly version: string;
}

/** The distribution that an os-release(5) is of. Throws an ImageError if its packages are not Debian's. */
export function readDistribution(osRelease: string): Distribution {
  const fields = Object.fromEntries(
    [...osRelease.matchAll(/^([A-Z_]+)="?([^"\n]*)"?$/gm)].map(([, name = "", value = ""]) => [name, value]),
  );
  const { ID, VERSION_CODENAME: codename, PRETTY_NAME: title = ID, VERSION_ID: version } = fields;
  if ((ID === "debian" || ID === "ubuntu") && codename && title && version) {
    return { id: ID, codename, title, version };
  }
  throw new ImageError(
    `the image is made of the packages of Debian or Ubuntu, and this is ${title ?? "another system"}: run npm run image there, such as in a virtual machine`,
  );
}

/** This machine's architecture. Throws an ImageError if there is no image for it. */
export function ownArchitecture(arch: string): Architecture {
  if (arch === "x64") return "amd64";
  if (arch === "arm64") return "arm64";
  throw new ImageError(`there are images for amd64 and arm64, and this machine is ${arch}`);
}

/** As npm calls an architecture. */
export const NPM_ARCH: Readonly<Record<Architecture, string>> = { amd64: "x64", arm64: "arm64" };
