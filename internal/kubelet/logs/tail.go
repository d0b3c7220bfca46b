package logs

import (
	"bytes"
	"fmt"
	"io"
)

const blockSize = 4096

// tailStart returns where the last n lines begin in f, which has size bytes; n < 0 is the
// beginning. Lines are those of the file: a long one that the runtime split counts for each part,
// as upstream counts.
func tailStart(f io.ReaderAt, size, n int64) (int64, error) {
	if n < 0 {
		return 0, nil
	}
	if n == 0 {
		return size, nil
	}
	buf := make([]byte, blockSize)
	end, seen := size, int64(0)
	for end > 0 {
		begin := max(0, end-blockSize)
		b := buf[:end-begin]
		if _, err := f.ReadAt(b, begin); err != nil && err != io.EOF {
			return 0, fmt.Errorf("find the last %d lines: %w", n, err)
		}
		for i := len(b); ; {
			i = bytes.LastIndexByte(b[:i], '\n')
			if i < 0 {
				break
			}
			// the newline that ends the file begins no line
			if begin+int64(i) == size-1 {
				continue
			}
			if seen++; seen == n {
				return begin + int64(i) + 1, nil
			}
		}
		end = begin
	}
	return 0, nil
}
