package toolcontext

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

// spillDir is where full results go, below the sandbox's directory for scratch files.
const spillDir = "hermes-results"

const maxSpillName = 120

// Spill stores the full text of a result in the sandbox and returns its path
// there, for the model to read page by page. Results with the same call id don't
// overwrite each other unless they are equal. The size is verified.
func (c *Context) Spill(ctx context.Context, tool, callID, text string) (string, error) {
	box, err := c.Sandbox(ctx)
	if err != nil {
		return "", fmt.Errorf("spill the result of %s: %w", tool, err)
	}
	if callID == "" {
		callID = tool
	}
	target := path.Join(box.Info().TempDir, spillDir, c.spillName(callID, text)+".txt")
	written, err := c.state.WriteBytes(ctx, target, []byte(text))
	if err != nil {
		return "", fmt.Errorf("spill the result of %s: %w", tool, err)
	}
	return written, nil
}

// spillName makes an id safe as a file name. An id that is changed for that, or
// that was used for another text, gets a part of a digest to stay unique.
func (c *Context) spillName(id, text string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.', r == '-':
			return r
		}
		return '_'
	}, id)
	safe = safe[:min(maxSpillName, len(safe))]
	if strings.HasPrefix(safe, ".") || strings.HasPrefix(safe, "-") {
		safe = "_" + safe[1:]
	}
	if safe != id {
		safe += "-" + digest(id)
	}
	content := digest(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spilled == nil {
		c.spilled = make(map[string]string)
	}
	if known, ok := c.spilled[safe]; ok && known != content {
		return safe + "-" + content
	}
	c.spilled[safe] = content
	return safe
}

// digest returns 12 hexadecimal digits of the SHA-256 of s.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:12]
}
