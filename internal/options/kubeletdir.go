package options

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gantry-project/gantry/internal/cli"
)

// kubeletLink is the kubelet's directory in the data directory, or a link to it.
func (p *Instance) kubeletLink() string { return filepath.Join(p.DataDir, "kubelet") }

// KubeletDir is the directory of the node's kubelet, without links: the one of --root-dir, or of
// the start that was given it last, or kubelet in the data directory.
func (p *Instance) KubeletDir() string {
	if p.dirs.root != "" {
		return p.dirs.root
	}
	if dir, err := filepath.EvalSymlinks(p.kubeletLink()); err == nil {
		return dir
	}
	return p.kubeletLink()
}

// completeRootDir checks --root-dir and takes the links out of it, as far as it is there.
func (p *Instance) completeRootDir() error {
	if p.dirs.root == "" {
		return nil
	}
	if !filepath.IsAbs(p.dirs.root) || filepath.Clean(p.dirs.root) == "/" {
		return cli.UsageError(fmt.Errorf("--root-dir %s: must be an absolute path, and not /", p.dirs.root))
	}
	p.dirs.root = filepath.Clean(p.dirs.root)
	if dir, err := filepath.EvalSymlinks(p.dirs.root); err == nil {
		p.dirs.root = dir
	}
	return nil
}

// MakeKubeletDir makes the kubelet's directory and has the data directory lead to it, for later
// starts, "gantry doctor" and "gantry clean". A node does not change it while it has Pods
// elsewhere.
func (p *Instance) MakeKubeletDir() error {
	if p.dirs.root == "" || p.dirs.root == p.kubeletLink() {
		return os.MkdirAll(p.KubeletDir(), 0o750)
	}
	if err := os.MkdirAll(p.dirs.root, 0o750); err != nil {
		return err
	}
	link := p.kubeletLink()
	if to, err := os.Readlink(link); err == nil && to == p.dirs.root {
		return nil
	}
	was := (&Instance{DataDir: p.DataDir}).KubeletDir()
	pods, err := os.ReadDir(filepath.Join(was, "pods"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(pods) == 0 {
		err = os.Remove(link) // a link, or a directory without anything in it
	}
	if len(pods) > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
		return cli.WithFix(fmt.Errorf("--root-dir %s: this node's kubelet works in %s", p.dirs.root, was),
			"take its Pods and volumes away with gantry clean, and move %s away", link)
	}
	return os.Symlink(p.dirs.root, link)
}
