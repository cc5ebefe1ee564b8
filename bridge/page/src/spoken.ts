/** Bytes as words that can be read out and compared: two bytes a word (proquints). */

const CONSONANTS = "bdfghjklmnprstvz";
const VOWELS = "aiou";

export function spoken(bytes: Uint8Array): string {
  const words: string[] = [];
  for (let at = 0; at < bytes.length; at += 2) {
    words.push(word(((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)));
  }
  return words.join("-");
}

function word(number: number): string {
  const consonant = (shift: number) => CONSONANTS[(number >> shift) & 15];
  const vowel = (shift: number) => VOWELS[(number >> shift) & 3];
  return `${consonant(12)}${vowel(10)}${consonant(6)}${vowel(4)}${consonant(0)}`;
}
