package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// Mount is where cgroups are mounted unless Options say otherwise.
const Mount = "/sys/fs/cgroup"

// hierarchy is what differs between the versions.
type hierarchy interface {
	version() int
	roots() []string // every directory a cgroup may have a directory below
	ensure(path string, v Values) error
	update(path string, v Values) error
	usage(path string) (Usage, error)
	kill(dir string) error // one directory with everything below
	mainDir(path string) string
	measure(path string, c *usage.Cgroup)
}

// Open detects the mounted version. It fails if there is no cgroup file system, or if Options.Root
// would not confine the Tree.
func Open(o Options) (*Tree, error) {
	if o.Mount == "" {
		o.Mount = Mount
	}
	o.Root = path.Clean("/" + o.Root)
	if o.Root == "/" {
		return nil, errors.New("cgroup: the root of a tree must be a subtree like /kubepods, not the whole hierarchy")
	}
	if _, err := os.Stat(filepath.Join(o.Mount, "cgroup.controllers")); err == nil {
		return &Tree{opts: o, hierarchy: v2{o.Mount}}, nil
	}
	h, err := findV1(o.Mount)
	if err != nil {
		return nil, err
	}
	return &Tree{opts: o, hierarchy: h}, nil
}

// Root returns the subtree that this Tree may write to.
func (t *Tree) Root() string { return t.opts.Root }

// Ensure creates the cgroup with all its parents, and writes the values. It may be repeated, also
// with other values.
func (t *Tree) Ensure(p string, v Values) error {
	p, err := t.absolutePath(p)
	if err != nil {
		return err
	}
	if err := t.hierarchy.ensure(p, v); err != nil {
		return fmt.Errorf("cgroup %s: %w", p, err)
	}
	return nil
}

// Update writes the values of a cgroup that exists and that others own: its children are left
// alone.
func (t *Tree) Update(p string, v Values) error {
	p, err := t.absolutePath(p)
	if err != nil {
		return err
	}
	if err := t.hierarchy.update(p, v); err != nil {
		return fmt.Errorf("cgroup %s: %w", p, err)
	}
	return nil
}

// Exists reports whether the cgroup exists in any hierarchy.
func (t *Tree) Exists(p string) bool {
	for _, r := range t.hierarchy.roots() {
		if _, err := os.Stat(filepath.Join(r, clean(p))); err == nil {
			return true
		}
	}
	return false
}

// List returns the names of the cgroups directly below parent in all hierarchies, sorted; none if
// parent does not exist.
func (t *Tree) List(parent string) ([]string, error) {
	var names []string
	for _, r := range t.hierarchy.roots() {
		entries, err := os.ReadDir(filepath.Join(r, clean(parent)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cgroup %s: %w", parent, err)
		}
		for _, e := range entries {
			if e.IsDir() && !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// Usage reads the use of the cgroup at p and everything below it. p may be any path of the
// hierarchy; "/" is the node. Files that the kernel lacks leave their fields zero.
func (t *Tree) Usage(p string) (Usage, error) {
	u, err := t.hierarchy.usage(clean(p))
	if err != nil {
		return Usage{}, fmt.Errorf("cgroup %s: %w", p, err)
	}
	return u, nil
}

// Processes returns the ids of the processes in the cgroup and in all below it, sorted.
func (t *Tree) Processes(p string) ([]int, error) {
	var pids []int
	for _, r := range t.hierarchy.roots() {
		found, err := processes(filepath.Join(r, clean(p)))
		if err != nil {
			return nil, fmt.Errorf("cgroup %s: %w", p, err)
		}
		pids = append(pids, found...)
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

func (t *Tree) absolutePath(p string) (string, error) {
	p = clean(p)
	if p != t.opts.Root && !strings.HasPrefix(p, t.opts.Root+"/") {
		return "", fmt.Errorf("%w: %s is not below %s", ErrOutside, p, t.opts.Root)
	}
	return p, nil
}

func clean(p string) string { return path.Clean("/" + p) }

// levels lists the cgroups from just below the top down to p: /a, /a/b, /a/b/c.
func levels(p string) []string {
	var out []string
	for p != "/" {
		out = append(out, p)
		p = path.Dir(p)
	}
	slices.Reverse(out)
	return out
}
