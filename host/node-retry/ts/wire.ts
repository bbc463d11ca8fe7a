// How values cross to the module and back: numbers as doubles, texts as their length and their bytes. NaN is none.

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export type Pairs = [string, string][];

export class Writer {
  private bytes = new Uint8Array(512);
  private at = 0;

  private room(more: number): void {
    if (this.at + more <= this.bytes.length) return;
    const bytes = new Uint8Array(2 * (this.at + more));
    bytes.set(this.bytes);
    this.bytes = bytes;
  }

  number(number: number | boolean | undefined): this {
    this.room(8);
    new DataView(this.bytes.buffer).setFloat64(this.at, Number(number), true);
    this.at += 8;
    return this;
  }

  text(text: string | undefined): this {
    const bytes = encoder.encode(text ?? '');
    this.number(bytes.length).room(bytes.length);
    this.bytes.set(bytes, this.at);
    this.at += bytes.length;
    return this;
  }

  pairs(pairs: Pairs): this {
    this.number(pairs.length);
    for (const [name, value] of pairs) this.text(name).text(value);
    return this;
  }

  done(): Uint8Array {
    return this.bytes.subarray(0, this.at);
  }
}

export class Reader {
  private at = 0;
  private readonly view: DataView;

  constructor(private readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset);
  }

  number(): number {
    this.at += 8;
    return this.view.getFloat64(this.at - 8, true);
  }

  optional(): number | undefined {
    const number = this.number();
    return Number.isNaN(number) ? undefined : number;
  }

  text(): string {
    const length = this.number();
    this.at += length;
    return decoder.decode(this.bytes.subarray(this.at - length, this.at));
  }

  pairs(): Pairs {
    return Array.from({ length: this.number() }, () => [this.text(), this.text()]);
  }
}
