/** Where the host reports to; a pino logger fits. */
export interface HostLog {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}
