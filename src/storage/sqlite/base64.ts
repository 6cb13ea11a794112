/** Base64 of bytes, for what a table keeps as readable JSON (S95). */
export function encodeBase64(bytes: Uint8Array): string {
  return (bytes as Uint8Array & { toBase64(): string }).toBase64();
}

/** @throws SyntaxError when `text` is no base64 */
export function decodeBase64(text: string): Uint8Array {
  return (Uint8Array as unknown as { fromBase64(text: string): Uint8Array }).fromBase64(text);
}
