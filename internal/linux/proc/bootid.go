package proc

// BootID is the id of this machine's boot, which Nodes report too; empty when it cannot be read.
func BootID() string {
	m, err := Read("/")
	if err != nil {
		return ""
	}
	return m.BootID
}
