/**
 * What a command may do as root, by the names of capabilities(7): what container engines let it do by default, but for
 * making devices, which engines then keep from being opened in a way that we lack. Above all not among them:
 * `sys_admin`, which could make the inputs writable again, `linux_immutable`, with which it could leave files that
 * can't be removed, and `dac_read_search`, which opens files by number, past every mount.
 */
export const ROOT_CAPABILITIES: readonly string[] = [
  "audit_write",
  "chown",
  "dac_override",
  "fowner",
  "fsetid",
  "kill",
  "net_bind_service",
  "net_raw",
  "setfcap",
  "setgid",
  "setpcap",
  "setuid",
  "sys_chroot",
];
