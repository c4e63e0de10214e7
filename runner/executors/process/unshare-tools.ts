/** Absolute paths of util-linux's tools, and of the POSIX ones. */
export interface UnshareTools {
  readonly unshare: string;
  readonly setpriv: string;
  readonly mount: string;
  readonly umount: string;
  readonly pivot_root: string;
  readonly sh: string;
  readonly env: string;
  readonly mkdir: string;
  readonly ln: string;
  readonly dd: string;
}
