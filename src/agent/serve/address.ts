/** What `opencode serve` says once it listens, known by its shape: the words around it change, and other addresses may be said. */
export const ADDRESS = /http:\/\/127\.0\.0\.1:(\d+)\/?\s/;
