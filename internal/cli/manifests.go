package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// ReadManifests calls read for each document, in order, of files, directories (their .yaml, .yml
// and .json files, and those below) and standard input (-). The first error ends it; what read
// returns is wrapped with the source and the document's number.
func ReadManifests(names []string, stdin io.Reader, read func(source string, document []byte) error) error {
	for _, name := range names {
		if name == "-" {
			if err := readDocuments("stdin", stdin, read); err != nil {
				return err
			}
			continue
		}
		err := filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			if ext := filepath.Ext(path); path != name && ext != ".yaml" && ext != ".yml" && ext != ".json" {
				return nil
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return readDocuments(path, f, read)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func readDocuments(source string, in io.Reader, read func(source string, document []byte) error) error {
	docs := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		if err := read(source, doc); err != nil {
			return fmt.Errorf("%s, document %d: %w", source, n, err)
		}
	}
}
