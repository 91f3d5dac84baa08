/** Where traces and blobs of a store lie: in rows of the database, or in a folder that all machines share. */
export interface Bytes extends AsyncDisposable {
	appendTrace(id: string, attempt: number, bytes: Uint8Array): Promise<void>;
	readTrace(id: string, attempt: number): AsyncIterable<Uint8Array>;
	putBlob(id: string, name: string, data: Uint8Array): Promise<void>;
	getBlob(id: string, name: string): Promise<Buffer | null>;
	listBlobs(id: string): Promise<string[]>;
}
