#include <Python.h>

// Checked builds: a Python that has the module built in. The libraries with checks cannot be loaded into a Python
// without them, and this is a program like any other.

extern "C" PyObject* PyInit__orrery();

int main(int count, char** values) {
  PyImport_AppendInittab("_orrery", PyInit__orrery);
  return Py_BytesMain(count, values);
}
