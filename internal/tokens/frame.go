package tokens

import "encoding/binary"

// Of zstd's format, RFC 8878.
const (
	blockHeaderSize = 3
	blockLast       = 1
	blockRLE        = 1
	blockCompressed = 2
	maxBlock        = 128 << 10
)

// onlyBlock returns the content of a frame's only block, if it has only one and
// that is compressed.
func onlyBlock(blocks []byte) ([]byte, bool) {
	if len(blocks) < blockHeaderSize {
		return nil, false
	}
	h := readBlockHeader(blocks)
	content := blocks[blockHeaderSize:]
	return content, h.last && h.kind == blockCompressed && h.size == len(content)
}

type blockHeader struct {
	last bool
	kind uint32
	size int
}

func readBlockHeader(b []byte) blockHeader {
	h := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	return blockHeader{h&blockLast != 0, h >> 1 & 3, int(h >> 3)}
}

// wholeFrame reports whether blocks are those of one frame, and nothing else: the
// decoder itself would go on with the next frame.
func wholeFrame(blocks []byte) bool {
	for len(blocks) >= blockHeaderSize {
		h := readBlockHeader(blocks)
		blocks = blocks[blockHeaderSize:]
		stored := h.size
		if h.kind == blockRLE {
			stored = 1
		}
		if stored > len(blocks) {
			return false
		}
		blocks = blocks[stored:]
		if h.last {
			return len(blocks) == 0
		}
	}
	return false
}

// appendFrameHeader appends the header of a frame for so many bytes.
func appendFrameHeader(dst []byte, dictionary byte, size uint32) []byte {
	const (
		fourByteSize  = 2 << 6
		singleSegment = 1 << 5
		oneByteID     = 1
	)
	dst = append(dst, 0x28, 0xb5, 0x2f, 0xfd)
	if dictionary == noDictionary {
		dst = append(dst, fourByteSize|singleSegment)
	} else {
		dst = append(dst, fourByteSize|singleSegment|oneByteID, dictionary)
	}
	return binary.LittleEndian.AppendUint32(dst, size)
}
