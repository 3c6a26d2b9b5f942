package content_test

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/mcpsaga/mcpsaga/content"
)

// A tool's result is a list of blocks.
func ExampleBlocks() {
	result := content.Blocks{
		content.Textf("Deployed to %s.", "production"),
		content.ResourceLink{URI: "file:///var/log/deploy.log", Name: "deploy.log"},
	}
	_ = json.NewEncoder(os.Stdout).Encode(result)
	// Output:
	// [{"type":"text","text":"Deployed to production."},{"type":"resource_link","uri":"file:///var/log/deploy.log","name":"deploy.log"}]
}

// Switch over the values, not over pointers.
func ExampleBlocks_unmarshal() {
	var blocks content.Blocks
	err := json.Unmarshal([]byte(`[
		{"type": "text", "text": "Hello"},
		{"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
		{"type": "hologram", "beams": 7}
	]`), &blocks)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range blocks {
		switch b := b.(type) {
		case content.Text:
			fmt.Println(b.Text)
		case content.Image:
			fmt.Println(len(b.Data), "bytes of", b.MIMEType)
		case content.Unknown:
			fmt.Println("kept:", string(b.Raw))
		}
	}
	// Output:
	// Hello
	// 4 bytes of image/png
	// kept: {"type": "hologram", "beams": 7}
}
