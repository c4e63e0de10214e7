/** A file as it is, by Vite. */
declare module "*?raw" {
  const text: string;
  export default text;
}
