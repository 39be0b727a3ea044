/* Loads each library that it is called with, as a CUDA program loads NVIDIA's, and prints which are found. */

int puts(const char *text);
void *dlopen(const char *name, int flags);

int main(int count, char **names)
{
    int missing = 0;
    for (int index = 1; index < count; index++) {
        if (dlopen(names[index], 2 /* RTLD_NOW */))
            puts(names[index]);
        else
            missing++;
    }
    return missing != 0;
}
